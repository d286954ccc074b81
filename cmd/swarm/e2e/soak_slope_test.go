package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
)

// soakLimit is the maximum rate at which a value may rise.
type soakLimit struct {
	rise  float64 // in unit
	scale float64 // factor from a value per unit of x to unit
	unit  string
}

const secondsPerHour = 3600

// soakLimits are the limits by measured quantity. Constant quantities may rise within the noise of 15 minutes.
// Quantities that grow with rounds may rise by the size of a round of the tiny model. Counts such as threads jump by
// one or two, which is a dozen per hour.
var soakLimits = map[string]soakLimit{
	"VmRSS":       {16, secondsPerHour / 1e6, "MB/h"},
	"Threads":     {20, secondsPerHour, "/h"},
	"open files":  {20, secondsPerHour, "/h"},
	"goroutines":  {20, secondsPerHour, "/h"},
	"wal":         {8, secondsPerHour / 1e6, "MB/h"},
	"exchange":    {16, secondsPerHour / 1e6, "MB/h"},
	"checkpoints": {1, secondsPerHour / 1e6, "MB/h"},
	"logs":        {200, 1, "bytes a node's round"},
	"database":    {2000, 1, "bytes a node's round"},
	"journal":     {6000, 1, "bytes a node's round"},
}

// soakSeries are measured values over x.
type soakSeries struct {
	name  string
	limit soakLimit
	x, y  []float64
}

// soakSlope is the slope of a series after its warm-up.
type soakSlope struct {
	mean  float64
	rise  float64
	error float64 // standard error of rise
}

const (
	soakBlocks        = 8   // blocks to average over: neighboring values are correlated, the blocks' means hardly are
	soakWarmUp        = 3   // the first 1/3 is dropped
	significantErrors = 3.0 // standard errors
)

// judge fits a least-squares line to the means of blocks. wrong is true if the line rises significantly more than the
// limit.
func (s *soakSeries) judge() (out soakSlope, wrong bool, err error) {
	from := len(s.x) / soakWarmUp
	x, y := s.x[from:], s.y[from:]
	if len(x) < soakBlocks {
		return out, false, fmt.Errorf("%d values after the warm-up are too few", len(x))
	}
	var bx, by []float64
	for i := range soakBlocks {
		lo, hi := i*len(x)/soakBlocks, (i+1)*len(x)/soakBlocks
		bx, by = append(bx, stat.Mean(x[lo:hi], nil)), append(by, stat.Mean(y[lo:hi], nil))
	}
	intercept, rise := stat.LinearRegression(bx, by, nil, false)
	squares, spread, middle := 0.0, 0.0, stat.Mean(bx, nil)
	for i := range bx {
		squares += math.Pow(by[i]-intercept-rise*bx[i], 2)
		spread += math.Pow(bx[i]-middle, 2)
	}
	if spread == 0 {
		return out, false, errors.New("no round was done")
	}
	out = soakSlope{
		mean: stat.Mean(y, nil), rise: rise * s.limit.scale, error: math.Sqrt(squares/(soakBlocks-2)/spread) * s.limit.scale,
	}
	return out, out.rise-significantErrors*out.error > s.limit.rise, nil
}

// A soak distinguishes a leak from noise.
func TestSlopeOfASeries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		rise  float64 // bytes per second
		noise float64
		wrong bool
	}{
		{"flat", 0, 0, false}, {"sawtooth", 0, 3e6, false}, {"slow leak", 1000, 1e5, false},
		{"leak", 10e3, 1e5, true}, {"leak in a sawtooth", 50e3, 3e6, true},
	} {
		s := soakSeries{limit: soakLimits["VmRSS"]}
		for i := range 180 {
			x := float64(5 * i)
			s.x, s.y = append(s.x, x), append(s.y, 50e6+tt.rise*x+tt.noise*math.Mod(x, 60)/60)
		}
		got, wrong, err := s.judge()
		require.NoError(t, err)
		require.Equal(t, tt.wrong, wrong, "%s: %+v", tt.name, got)
		require.InDelta(t, tt.rise*secondsPerHour/1e6, got.rise, 0.1+4*got.error, tt.name)
	}
	_, _, err := (&soakSeries{x: []float64{1}, y: []float64{1}}).judge()
	require.Error(t, err)
}

var resourceLine = regexp.MustCompile(`^time=(\S+) .*msg=resources .*goroutines=(\d+)`)

// goroutineLine parses a resource line of a verbose log.
func goroutineLine(line string) (time.Time, float64, bool) {
	m := resourceLine.FindStringSubmatch(line)
	if m == nil {
		return time.Time{}, 0, false
	}
	at, err := time.Parse(time.RFC3339Nano, m[1])
	n, err2 := strconv.ParseFloat(m[2], 64)
	return at, n, err == nil && err2 == nil
}

// statusValue returns a number from /proc/PID/status. Sizes are converted to bytes.
func statusValue(pid int, key string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			fields := strings.Fields(rest)
			value, err := strconv.ParseFloat(fields[0], 64)
			if len(fields) > 1 && fields[1] == "kB" {
				value *= 1024
			}
			return value, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, key)
}

func bytesOf(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}

// treeBytes sums the sizes of files below a folder whose names begin with prefix. It skips files that disappear
// meanwhile.
func treeBytes(dir, prefix string) float64 {
	sum := 0.0
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			sum += bytesOf(path)
		}
		return nil
	})
	return sum
}
