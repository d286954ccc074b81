package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// resumed opens a folder's journal and resumes it at a round.
func resumed(t testing.TB, dir string, round int) *Journal {
	t.Helper()
	j, err := Open(dir, quiet())
	require.NoError(t, err)
	require.NoError(t, j.Resume(round))
	return j
}

// The records of a round are small, and differ for every round and version.
func generated(round, version int) Generated {
	return Generated{
		Seed: int64(round*1000 + version), Completions: [][]int{{round, 1, 2}, {version}}, Terminated: []bool{true, false},
		Entropy: 0.1 + float64(round), Seconds: 1.5, Batch: json.RawMessage(fmt.Sprintf(`{"round":%d}`, round)),
	}
}

func trained(round, version int) Trained {
	return Trained{
		Update: policy.UpdateParams{
			Prompts:   [][]int{{1, 2, 3}},
			Sequences: []policy.Sequence{{Completion: []int{round}, Advantage: 1.0 / 3}, {Completion: []int{version}, Advantage: -0.1}},
		},
		Report: event.Round{Round: round, Reward: float64(version) / 7},
	}
}

func done(round, version int) Done {
	return Done{Event: event.Event{Type: event.TypeRound, Time: float64(version), Round: &event.Round{Round: round, Loss: 0.1}}}
}

// whole returns a round with all three records.
func whole(round, version int) Round {
	g, tr, d := generated(round, version), trained(round, version), done(round, version)
	return Round{Round: round, Generated: &g, Trained: &tr, Done: &d}
}

func write(t testing.TB, j *Journal, round, version int) {
	t.Helper()
	require.NoError(t, j.Generated(round, generated(round, version)))
	require.NoError(t, j.Trained(round, trained(round, version)))
	require.NoError(t, j.Done(round, done(round, version)))
}

// written returns a folder with rounds 0 to rounds-1, with a new segment at every multiple of every.
func written(t testing.TB, rounds, every int) string {
	t.Helper()
	dir := t.TempDir()
	j := resumed(t, dir, 0)
	for round := range rounds {
		if round%every == 0 {
			require.NoError(t, j.Rotate(round))
		}
		write(t, j, round, 0)
	}
	require.NoError(t, j.Close())
	return dir
}

// read returns the rounds from a round on, and the final error.
func read(dir string, from int) ([]Round, error) {
	var list []Round
	for r, err := range Rounds(dir, from) {
		if err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

func logs(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "journal-*.log"))
	require.NoError(t, err)
	return paths
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := written(t, 25, 10)
	require.Len(t, logs(t, dir), 3)
	for _, from := range []int{0, 1, 9, 10, 24, 25, 99} {
		list, err := read(dir, from)
		require.NoError(t, err)
		require.Len(t, list, max(0, 25-from))
		for i, r := range list {
			require.Equal(t, whole(from+i, 0), r)
		}
	}
	for _, round := range []int{0, 9, 10, 24} {
		r, err := Find(dir, round)
		require.NoError(t, err)
		require.Equal(t, whole(round, 0), r)
	}
	_, err := Find(dir, 25)
	require.ErrorIs(t, err, ErrNotFound)
	for range Rounds(dir, 3) {
		break // a reader may stop early
	}
}

func TestNothingIsThere(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		list, err := read(dir, 0)
		require.NoError(t, err)
		require.Empty(t, list)
		_, err = Find(dir, 0)
		require.ErrorIs(t, err, ErrNotFound)
	}
	_, err := Open(filepath.Join(t.TempDir(), "missing"), quiet())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestResumeDropsWhatIsOfTheRoundAndLater(t *testing.T) {
	for _, round := range []int{0, 5, 10, 15, 20, 25} {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			dir := written(t, 25, 10)
			j := resumed(t, dir, round)
			list, err := read(dir, 0)
			require.NoError(t, err)
			own := generated(round, 0)
			if round < 25 {
				require.Equal(t, Round{Round: round, Generated: &own}, list[len(list)-1], "what was generated in the round remains")
				list = list[:len(list)-1]
			}
			require.Len(t, list, round)
			write(t, j, round, 1)
			write(t, j, round+1, 1)
			require.NoError(t, j.Close())
			list, err = read(dir, 0)
			require.NoError(t, err)
			require.Len(t, list, round+2)
			require.Equal(t, whole(round, 1), list[round])
			require.Equal(t, whole(round+1, 1), list[round+1])
		})
	}
}

// If rounds up to the checkpoint's are missing, the journal continues in a new segment and keeps the old ones.
func TestResumeBehindWhatIsThere(t *testing.T) {
	dir := written(t, 15, 10)
	j := resumed(t, dir, 20)
	write(t, j, 20, 0)
	require.NoError(t, j.Close())
	list, err := read(dir, 0)
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "rounds 15 to 19 are missing")
	require.Len(t, list, 15)
	list, err = read(dir, 20)
	require.NoError(t, err)
	require.Equal(t, []Round{whole(20, 0)}, list)
	_, err = Find(dir, 17)
	require.ErrorIs(t, err, ErrNotFound)
	list, err = read(dir, 17)
	require.ErrorContains(t, err, "rounds 17 to 19 are missing")
	require.Empty(t, list)
}

func TestAMissingSegmentIsDamage(t *testing.T) {
	dir := written(t, 40, 10)
	require.NoError(t, os.Remove(filepath.Join(dir, segmentName(20))))
	list, err := read(dir, 0)
	require.ErrorContains(t, err, "rounds 20 to 29 are missing")
	require.ErrorIs(t, err, ErrDamaged)
	require.Len(t, list, 20)
	_, err = Find(dir, 25)
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, os.Remove(filepath.Join(dir, segmentName(0))))
	_, err = read(dir, 0)
	require.ErrorContains(t, err, "rounds 0 to 9 are missing")
}

func TestANewerFormatIsNoDamage(t *testing.T) {
	dir := written(t, 5, 10)
	path := filepath.Join(dir, segmentName(0))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(data, sum(append(append([]byte{}, magic[:]...), 9, 0, 0, 0, 0, 0, 0, 0)))
	require.NoError(t, os.WriteFile(path, data, 0o644))
	_, err = read(dir, 0)
	require.ErrorIs(t, err, ErrVersion)
	require.NotErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "its version is 9, this program reads 1. Try: ")
	j, err := Open(dir, quiet())
	require.NoError(t, err)
	defer j.Close()
	require.ErrorIs(t, j.Resume(5), ErrVersion)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, after, "it is left alone")
}

func TestOneWriterAFolder(t *testing.T) {
	dir := t.TempDir()
	first := resumed(t, dir, 0)
	folder, err := os.Open(dir)
	require.NoError(t, err)
	defer folder.Close()
	require.ErrorIs(t, lock(folder, 50*time.Millisecond, quiet()), ErrInUse)
	require.NoError(t, first.Close())
	second, err := Open(dir, quiet())
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

func TestRecordsOutOfPlaceAreRefused(t *testing.T) {
	j, err := Open(t.TempDir(), quiet())
	require.NoError(t, err)
	defer j.Close()
	require.Error(t, j.Generated(0, Generated{}), "before Resume")
	require.Error(t, j.Rotate(0))
	require.NoError(t, j.Resume(10))
	require.Error(t, j.Generated(9, Generated{}))
	require.Error(t, j.Rotate(9))
	require.NoError(t, j.Rotate(10))
	require.NoError(t, j.Generated(10, Generated{}))
	require.Error(t, j.Rotate(10), "a round isn't in two segments")
	require.NoError(t, j.Rotate(11))
	require.NoError(t, j.Resume(10))
	require.Error(t, j.Rotate(10), "what was generated is still there")
}

// A full disk costs only the record that meets it.
func TestDiskIsFullInTheMiddleOfARecord(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("no small file system can be mounted: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	j := resumed(t, dir, 0)
	write(t, j, 0, 0)
	require.NoError(t, j.Generated(1, generated(1, 0)))
	size := j.size
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]float64, 1<<16)
	for i := range noise {
		noise[i] = rng.Float64()
	}
	err := j.Trained(1, Trained{Update: policy.UpdateParams{Sequences: []policy.Sequence{{OldLogprobs: noise}}}})
	require.ErrorIs(t, err, syscall.ENOSPC)
	info, err := os.Stat(filepath.Join(dir, segmentName(0)))
	require.NoError(t, err)
	require.Equal(t, size, info.Size(), "no part of the record is left")
	require.NoError(t, j.Trained(1, trained(1, 0)), "a smaller one has room")
	require.NoError(t, j.Done(1, done(1, 0)))
	require.NoError(t, j.Close())
	list, err := read(dir, 0)
	require.NoError(t, err)
	require.Equal(t, []Round{whole(0, 0), whole(1, 0)}, list)
}

func TestAReaderBesideTheWriter(t *testing.T) {
	dir := t.TempDir()
	j := resumed(t, dir, 0)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for round := range 200 {
			if round%50 == 0 {
				if err := j.Rotate(round); err != nil {
					t.Error(err)
				}
			}
			for _, err := range []error{j.Generated(round, generated(round, 0)), j.write(round, frameOf(t, kindTrained, round, trained(round, 0)), false),
				j.Done(round, done(round, 0))} {
				if err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for writing := true; writing; {
		select {
		case <-finished:
			writing = false
		default:
		}
		list, err := read(dir, 0)
		require.NoError(t, err)
		for i, r := range list {
			if i < len(list)-1 {
				require.Equal(t, whole(i, 0), r)
			}
		}
	}
	list, err := read(dir, 0)
	require.NoError(t, err)
	require.Len(t, list, 200)
	require.NoError(t, j.Close())
}

func frameOf(t testing.TB, k kind, round int, record any) []byte {
	t.Helper()
	payload, err := encodePayload(record)
	require.NoError(t, err)
	data, err := encodeRecord(k, round, payload)
	require.NoError(t, err)
	return data
}

func TestBounds(t *testing.T) {
	_, err := encodeRecord(kindDone, 0, make([]byte, maxPayload+1))
	require.ErrorContains(t, err, "more than 67108864")
	_, err = encodeRecord(kindDone, -1, nil)
	require.ErrorContains(t, err, "round -1 is out of range")
	bomb := encoder().EncodeAll(make([]byte, maxPayload+1), nil)
	require.Less(t, len(bomb), 1<<16)
	_, err = decodePayload[Done](bomb)
	require.True(t, errors.Is(err, ErrDamaged), "%v", err)
}
