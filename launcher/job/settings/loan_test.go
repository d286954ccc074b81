package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func lend(t testing.TB, state, dir string, texts ...string) (*Loan, error) {
	t.Helper()
	var places []Place
	for _, text := range texts {
		places = append(places, place(t, text))
	}
	return Lend(state, dir, "swarm run train", places)
}

func TestALoanWritesFromTheOriginalAndGivesItBack(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	before := snapshot(t, dir)
	info, err := os.Stat(filepath.Join(dir, "ds_config.json"))
	require.NoError(t, err)
	l, err := lend(t, state, dir, "conf/config.yaml:data_loader.batch_size", "ds_config.json:train_micro_batch_size_per_gpu", stages+":n_negatives")
	require.NoError(t, err)
	require.Equal(t, before, snapshot(t, dir))
	changes := append(one(t, "conf/config.yaml:data_loader.batch_size", "22"), one(t, "ds_config.json:train_micro_batch_size_per_gpu", "16")...)
	require.NoError(t, l.Set(append(changes, negatives("8")...)))
	require.Contains(t, read(t, dir, "conf/config.yaml"), "  batch_size: 22      # per")
	require.Contains(t, read(t, dir, "conf/text_curriculum/05_stage.yaml"), "n_negatives: 8\n")
	require.NoError(t, l.Set(one(t, "conf/config.yaml:data_loader.batch_size", "11")))
	require.Contains(t, read(t, dir, "conf/config.yaml"), "  batch_size: 11      # per")
	require.Equal(t, before[filepath.Join(dir, "ds_config.json")][10:], read(t, dir, "ds_config.json"), "what the second doesn't name is as it was")
	require.ErrorContains(t, l.Set(one(t, "local.env:BATCH_SIZE", "1")), "a file that this job has changed")
	require.ErrorContains(t, l.Set(one(t, "conf/config.yaml:data_loader.batch_size", "x")), "number")
	require.NoError(t, l.Revert())
	require.Equal(t, before, snapshot(t, dir), "nothing is left beside the files")
	require.Empty(t, entries(state, openName))
	again, err := os.Stat(filepath.Join(dir, "ds_config.json"))
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), again.ModTime())
	require.NoError(t, l.Revert(), "a second time does nothing")
	require.Error(t, l.Set(nil))
}

func TestALoanOfWhatIsNotThereTakesNothing(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	for _, bad := range []string{"conf/config.yaml:nothing_of_that", "conf/config.yaml:tower_b.lora_r", "missing.yaml:a"} {
		_, err := lend(t, state, dir, "ds_config.json:steps", bad)
		require.Error(t, err)
		require.Empty(t, entries(state, openName))
	}
}

func TestAFileIsLentToOneAtATime(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	require.NoError(t, os.Symlink("conf/config.yaml", filepath.Join(dir, "link.yaml")))
	l, err := lend(t, state, dir, "conf/config.yaml:last")
	require.NoError(t, err)
	require.NoError(t, l.Set(one(t, "conf/config.yaml:last", "8")))
	_, err = lend(t, state, dir, "link.yaml:last")
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("link.yaml is in use: swarm run train (process %d) has changed it", os.Getpid()))
	e, err := Prepare(dir, one(t, "conf/config.yaml:last", "9"))
	require.NoError(t, err)
	require.ErrorIs(t, e.Apply(state), ErrInUse)
	restored, err := Recover(state)
	require.NoError(t, err)
	require.Empty(t, restored, "who lives is left alone")
	other, err := lend(t, state, dir, "ds_config.json:steps")
	require.NoError(t, err, "another file is free")
	require.NoError(t, other.Revert())
	require.NoError(t, l.Revert())
	l, err = lend(t, state, dir, "link.yaml:last")
	require.NoError(t, err)
	require.NoError(t, l.Revert())
}

func TestAFileThatSomebodyElseChangedIsNotRevertedNorWritten(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	before := snapshot(t, dir)
	l, err := lend(t, state, dir, "conf/config.yaml:last", "ds_config.json:steps")
	require.NoError(t, err)
	changes := append(one(t, "conf/config.yaml:last", "8"), one(t, "ds_config.json:steps", "50")...)
	require.NoError(t, l.Set(changes))
	mine := read(t, dir, "conf/config.yaml") + " # mine"
	write(t, filepath.Join(dir, "conf/config.yaml"), mine)
	changes[0].To, changes[1].To = "9", "25"
	require.ErrorContains(t, l.Set(changes), "another program has changed conf/config.yaml in the meantime")
	require.Contains(t, read(t, dir, "ds_config.json"), `"50"`, "all or none")
	require.ErrorContains(t, l.Revert(), "conf/config.yaml was changed by another program in the meantime and stays as it is; swarm had written last=")
	require.Equal(t, mine, read(t, dir, "conf/config.yaml"))
	require.Equal(t, before[filepath.Join(dir, "ds_config.json")][10:], read(t, dir, "ds_config.json"))
}

// TestManyJobsTakeTurns checks that each job gets the original file, whatever the others do.
func TestManyJobsTakeTurns(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	before := snapshot(t, dir)
	var wg sync.WaitGroup
	var served sync.Map
	for job := range 8 {
		wg.Go(func() {
			for attempt := range 6 {
				l, err := Lend(state, dir, "job", []Place{{File: "local.env", Key: "BATCH_SIZE"}})
				if err != nil {
					if !errors.Is(err, ErrInUse) {
						t.Error(err)
					}
					continue
				}
				served.Store(job*100+attempt, true)
				for _, to := range []string{"16", "8"} {
					if err := l.Set([]Change{{Place{File: "local.env", Key: "BATCH_SIZE"}, to}}); err != nil {
						t.Error(err)
					}
				}
				if v, err := Get(dir, Place{File: "local.env", Key: "BATCH_SIZE"}); err != nil || v.Text != "8" {
					t.Errorf("%v %v", v, err)
				}
				if err := l.Revert(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	served.Range(func(any, any) bool { n++; return true })
	require.Positive(t, n)
	require.Equal(t, before, snapshot(t, dir))
	require.Empty(t, entries(state, openName))
}
