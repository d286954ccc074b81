//go:build !race

package dashboard

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/charts"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const images = "../../docs/images"

var pictures = map[string]string{"dashboard-light.png": "light", "dashboard-dark.png": "dark"}

// pageHash is the SHA-256 of all files of the page.
func pageHash(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, fs.WalkDir(page, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := page.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(body), body)
		return err
	}))
	for _, a := range charts.Assets() {
		fmt.Fprintf(sum, "%s %d\n%s", a.Name, len(a.Text), a.Text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// TestThePicturesAreOfThisPage compares the hash recorded for docs/images/dashboard-*.png with that of the page. With
// SWARM_TEST_IMAGES=1 it renders the pictures from the study control on nano, docs/study/control.db.gz.
func TestThePicturesAreOfThisPage(t *testing.T) {
	hash := pageHash(t)
	if os.Getenv("SWARM_TEST_IMAGES") != "" {
		ctx, said := boundedChromium(t, walkTime)
		s := newSwarm(t, func(o *Options) {
			o.Alive = func(store.Snapshot, float64) bool { return false }
			o.Studies = studies(controlStudy())
		})
		unpack(t, filepath.Join("..", "..", "docs", "study", "control.db.gz"), s.path)
		base := s.serve()
		for name, scheme := range pictures {
			draw(t, ctx, base+"/?"+scheme, 1280, scheme)
			until(t, ctx, `document.querySelector(".question") !== null && document.querySelector("#comparison") !== null && document.querySelector("#view [data-drawn] canvas") !== null`)
			settlePage(t, ctx)
			picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(images, name), picture, 0o644)) //nolint:gosec // a picture of the documentation
			noteSource(t, name, hash)
		}
		require.Empty(t, said.all())
	}
	noted, err := os.ReadFile(filepath.Join(images, "SOURCES"))
	require.NoError(t, err)
	for name := range pictures {
		require.FileExists(t, filepath.Join(images, name))
		require.Contains(t, string(noted), name+" "+hash+"\n", "the page is newer than its picture: make screenshots")
	}
}

// controlStudy is the study control with nano, as configs/studies/control.yaml has it.
func controlStudy() stats.CompareOptions {
	d := &stats.StudyDesign{Name: "control", Source: "control", Model: "nano", Question: "What do others' rollouts add to nodes that generate as few of their own?",
		Baseline: "2loc0ext", Seeds: 5, Contrasts: [][2]string{{"2loc6ext", "2loc0ext"}, {"4loc4ext", "4loc0ext"}, {"4loc4ext-uncorrected", "8loc0ext"}}}
	for _, name := range []string{"2loc0ext", "2loc6ext", "4loc0ext", "4loc4ext", "8loc0ext", "4loc4ext-uncorrected"} {
		d.Arms = append(d.Arms, stats.StudyArm{Name: name, Experiment: "control-" + name})
	}
	return stats.CompareOptions{Study: d, Measure: stats.MeasurePass}
}

// noteSource records the hash of a picture's source.
func noteSource(t *testing.T, name, hash string) {
	t.Helper()
	path := filepath.Join(images, "SOURCES")
	text, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, name+" ")
	})
	lines = append(lines, name+" "+hash)
	slices.Sort(lines)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)) //nolint:gosec // a file of the documentation
}

// unpack decompresses a file to another file.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.Open(from)
	require.NoError(t, err)
	defer file.Close()
	packed, err := gzip.NewReader(file)
	require.NoError(t, err)
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, packed) //nolint:gosec // our own file
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
