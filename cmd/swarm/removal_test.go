package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// prunedHome has the done runs a-0 to a-3, each later than the one before, the stopped run a-4, and the done run b-5.
// Each has a folder of 1000 bytes.
func prunedHome(t *testing.T) string {
	t.Helper()
	var runs []comparedRun
	for seed := range 5 {
		r := comparedRun{experiment: "a", seed: int64(seed), reward: 0.3}
		if seed == 4 {
			r.left = 3
		}
		runs = append(runs, r)
	}
	home := comparedHome(t, append(runs, comparedRun{experiment: "b", seed: 1, reward: 0.3})...)
	for _, r := range ls(t, home).Runs {
		writeRunFile(t, home, r.Run, "node_0/journal-00000000.log", 1000)
	}
	return home
}

// foldersOf returns the names in a home's runs folder.
func foldersOf(t *testing.T, home string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(home, "runs"))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func removed(t *testing.T, home string, args ...string) (d runs.Removed, names []string) {
	t.Helper()
	o := swarm(t, home, append(args, "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	for _, r := range d.Runs {
		names = append(names, r.Run)
	}
	return d, names
}

func TestRmRemovesRecordsAndFiles(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	d, names := removed(t, home, "rm", "a-1", "b", "--dry-run")
	require.Equal(t, []string{"b-5", "a-1"}, names)
	require.EqualValues(t, 2000, d.FreedBytes)
	require.Equal(t, 4, d.Remaining)
	require.Len(t, ls(t, home).Runs, 6)
	require.Len(t, foldersOf(t, home), 6)
	require.NoDirExists(t, filepath.Join(home, "locks"), "a dry run writes nothing")

	o := swarm(t, home, "rm", "a-1", "b", "--yes")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `^Removed 2 runs: 2 kB freed\.( The database file does not shrink, but has room for another .*)?\n4 runs left\. swarm ls lists runs\.\n$`, o.stdout)
	require.Equal(t, []string{"a-4", "a-3", "a-2", "a-0"}, runNames(ls(t, home)))
	require.Equal(t, []string{"a-0", "a-2", "a-3", "a-4"}, foldersOf(t, home))
	require.Equal(t, fail.ExitUsage, swarm(t, home, "rm", "a-1", "--yes").code)
}

func TestRmOfFilesKeepsTheRecord(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	before := swarm(t, home, "compare", "-o", "json").stdout
	d, names := removed(t, home, "rm", "a-0", "b-5", "--files", "--yes")
	require.Equal(t, []string{"b-5", "a-0"}, names)
	require.Equal(t, 6, d.Remaining)
	require.True(t, d.FilesOnly)
	require.Equal(t, []string{"a-1", "a-2", "a-3", "a-4"}, foldersOf(t, home))
	require.Equal(t, before, swarm(t, home, "compare", "-o", "json").stdout)
	require.Contains(t, swarm(t, home, "rm", "a-0", "--files", "--yes").stdout, "Nothing to remove.\n")
}

// Commands do not advise to continue a run whose files were removed.
func TestARunWithoutFilesCannotContinue(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	_, names := removed(t, home, "rm", "a-3", "a-4", "--files", "--yes")
	require.Equal(t, []string{"a-4", "a-3"}, names)
	gone := "the files of run a-4 were removed: " + filepath.Join(home, "runs", "a-4") + " is missing\nTry: swarm up --fresh for a new run\n"
	for _, x := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"status a-4", "It cannot continue, because its files were removed. For a new run: ", "", 0},
		{"down a-4", "It cannot continue, because its files were removed. For a new run: swarm up --fresh\n", "", 0},
		{"resume a-3", "It cannot be extended, because its files were removed.\n", "", 0},
		{"resume a-4", "", "Error: run a-4 cannot continue: " + gone, 1},
		{"verify a-4", "", "Error: " + gone, 1},
		{"eval a-4 --node node_0", "", "Error: " + gone, 1},
	} {
		o := swarm(t, home, strings.Fields(x.args)...)
		require.Equal(t, x.code, o.code, "%s: %s", x.args, o.stderr)
		require.Contains(t, o.stdout, x.stdout, x.args)
		require.Contains(t, o.stderr, x.stderr, x.args)
		require.NotContains(t, o.stdout, "ontinue with", x.args)
		require.NotContains(t, o.stdout, "continues", x.args)
	}
}

func TestPruneKeepsTheNewestDoneRuns(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	for _, x := range []struct {
		args string
		want []string
	}{
		{"--keep 2", []string{"a-1", "a-0"}},
		{"--keep 0", []string{"b-5", "a-3", "a-2", "a-1", "a-0"}},
		{"b --keep 0", []string{"b-5"}},
		{"--keep 1 --state stopped,done", []string{"a-3", "a-2", "a-1", "a-0"}},
		{"--older-than 30d --state stopped", []string{"a-4"}},
		{"--older-than 30d --keep 3", []string{"a-0"}},
		{"--older-than 5000w", nil},
		{"--keep 9", nil},
	} {
		_, names := removed(t, home, append([]string{"prune", "--dry-run"}, strings.Fields(x.args)...)...)
		require.Equal(t, x.want, names, x.args)
	}
	_, names := removed(t, home, "prune", "--keep", "3", "--files", "--yes")
	require.Equal(t, []string{"a-0"}, names)
	_, names = removed(t, home, "prune", "--keep", "2", "--files", "--yes")
	require.Equal(t, []string{"a-1"}, names, "what has no files counts as kept, and is not removed again")
	o := swarm(t, home, "prune", "--keep", "1", "-y")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "Removed 3 runs: 1 kB freed.")
	require.Equal(t, []string{"b-5", "a-4", "a-3"}, runNames(ls(t, home)))
}

func TestPruneLeavesImportedRuns(t *testing.T) {
	t.Parallel()
	home := listedHome(t)
	_, names := removed(t, home, "prune", "--keep", "0", "--dry-run")
	require.Equal(t, []string{"a-1", "a-0"}, names)
	_, names = removed(t, home, "rm", "c", "--yes")
	require.Equal(t, []string{"c-9"}, names)
}

func TestARunningRunIsNeverRemoved(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pretend(t, home, map[string]string{"live": deaf, "dead": brief})
	o := swarm(t, home, "rm", "live-1", "dead-1", "--yes")
	require.Equal(t, outcome{1, "", "Error: live-1 is running\nTry: swarm down live-1\n"}, o)
	require.Equal(t, []string{"dead-1", "live-1"}, foldersOf(t, home), "nothing is removed where one of them runs")

	// A coordinator that is about to start or resume holds the lock.
	lock, err := lifecycle.LockExperiment(layout.Home(home), "dead")
	require.NoError(t, err)
	want := fmt.Sprintf("dead-1 cannot be removed: its experiment dead is running (process %d)", os.Getpid())
	o = swarm(t, home, "rm", "dead-1", "--yes")
	require.Equal(t, outcome{1, "", "Error: " + want + "\nTry: swarm down dead\n"}, o)
	o = swarm(t, home, "prune", "--keep", "0", "--state", "crashed", "--yes")
	require.Equal(t, outcome{0, "Left: " + want + "\n2 runs left. swarm ls lists runs.\n", ""}, o)
	lock.Release()

	sweep, err := files.TakeClaim(lifecycle.SweepLockPath(layout.Home(home), "dead"))
	require.NoError(t, err)
	o = swarm(t, home, "rm", "dead-1", "--yes")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "a sweep with its experiment dead is running")
	sweep.Release()

	_, names := removed(t, home, "rm", "dead-1", "--yes")
	require.Equal(t, []string{"dead-1"}, names)
	require.Equal(t, []string{"live-1"}, foldersOf(t, home))
}

func TestRemovalAsks(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	o := swarm(t, home, "rm", "a-0", "--files")
	require.Equal(t, outcome{2, "", "Error: rm asks before it removes 1 run, but there is no terminal to answer on\n" +
		"Try: swarm rm a-0 --files --yes, or --dry-run to see what would be removed\n"}, o)
	for _, answer := range []string{"n\n", "\n", "y\n"} {
		ours, theirs := openTerminal(t)
		_, err := io.WriteString(ours, answer)
		require.NoError(t, err)
		screen := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(ours)
			screen <- string(text)
		}()
		cmd := swarmCommand(t, home, "rm", "a-0", "a-1")
		cmd.Stdin, cmd.Stderr = theirs, theirs
		var out strings.Builder
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		code := waitFor(t, cmd)
		require.NoError(t, theirs.Close())
		text := <-screen
		require.Contains(t, text, "Remove 2 runs with records and files, 2 kB? [y/N]")
		require.Regexp(t, `a-1 .*1 kB`, text, "what goes is listed")
		_, err = os.Stat(filepath.Join(home, "runs", "a-0"))
		require.Equal(t, answer == "y\n", os.IsNotExist(err), "%q", answer)
		require.Equal(t, map[bool]int{true: fail.ExitDone, false: fail.ExitFailed}[answer == "y\n"], code, text)
	}
	require.Len(t, ls(t, home).Runs, 4)
}

func TestRemovalRefusals(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	for _, x := range []struct{ args, want string }{
		{"rm", "rm needs the names of runs or experiments"},
		{"rm nosuch --yes", `no run or experiment "nosuch" is recorded`},
		{"rm a-0 ../a-1 --yes", `no run or experiment "../a-1" is recorded`},
		{"prune", "Try: swarm prune --keep 3 --dry-run"},
		{"prune --keep -2", "--keep"},
		{"prune --older-than soon", `"soon" (--older-than): allowed: a number and m, h, d or w`},
		{"prune --keep 1 --state running", `"running" (--state): allowed: crashed, done`},
		{"prune nosuch --keep 1", `no experiment "nosuch" is recorded`},
		{"prune a-0 --keep 1", `"a-0" is a run`},
	} {
		o := swarm(t, home, strings.Fields(x.args)...)
		require.Equal(t, fail.ExitUsage, o.code, "%s: %s", x.args, o.stderr)
		require.Contains(t, o.stderr, x.want, x.args)
	}
	require.Len(t, foldersOf(t, home), 6)
}

// An untrusted database may contain paths as run names, and a folder may be a symbolic link.
func TestRemovalStaysWithinTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	for i, name := range []string{"../outside", "..", ".", "linked-1"} {
		require.NoError(t, s.StartRun(t.Context(), store.Run{Run: name, Experiment: "../e", Started: float64(i + 1)}))
		require.NoError(t, s.Record(t.Context(), endOfRun(name, 10, store.RunDone)))
	}
	require.NoError(t, s.Close())
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "outside"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "runs"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(home, "runs", "linked-1")))
	for _, path := range []string{filepath.Join(outside, "x"), filepath.Join(home, "outside", "x")} {
		require.NoError(t, os.WriteFile(path, []byte("keep"), 0o644))
	}
	_, names := removed(t, home, "rm", "../e", "--yes")
	require.Len(t, names, 4)
	require.Empty(t, ls(t, home).Runs)
	require.FileExists(t, filepath.Join(outside, "x"))
	require.FileExists(t, filepath.Join(home, "outside", "x"))
	require.Empty(t, foldersOf(t, home))
	require.FileExists(t, filepath.Join(home, "swarm.db"))
}

// Whenever a removal is killed, the next one finishes it, and no partial state looks like a complete run.
func TestAKilledRemovalIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, comparedRun{experiment: "a", seed: 1, reward: 0.3})
	for i := range 400 {
		writeRunFile(t, home, "a-0", fmt.Sprintf("node_0/%d/x", i), 1)
	}
	killed := 0
	for _, wait := range []time.Duration{0, 15, 30, 45, 60, 75} {
		cmd := swarmCommand(t, home, "rm", "a-0", "--yes")
		require.NoError(t, cmd.Start())
		time.Sleep(wait * time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		if waitFor(t, cmd) == 128+int(syscall.SIGKILL) {
			killed++
		}
		d := ls(t, home)
		if len(d.Runs) == 0 {
			break // it reached the last step
		}
		if d.Runs[0].Folder != nil {
			entries, err := os.ReadDir(filepath.Join(home, "runs", "a-0", "node_0"))
			require.NoError(t, err)
			require.Len(t, entries, 400, "a folder that is there is whole")
		}
	}
	require.Positive(t, killed)
	swarm(t, home, "rm", "a-0", "--yes")
	require.Empty(t, ls(t, home).Runs)
	require.Empty(t, foldersOf(t, home))
}

// The two states that a kill leaves: files moved aside and the record present, or the record alone.
func TestWhatAKilledRemovalLeaves(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	require.NoError(t, os.Rename(filepath.Join(home, "runs", "a-0"), filepath.Join(home, "runs", ".removed-1-1")))
	require.NoError(t, os.RemoveAll(filepath.Join(home, "runs", "a-1")))
	require.Regexp(t, `(?m)^a-0 .*no files$`, swarm(t, home, "ls", "a-0").stdout)
	_, names := removed(t, home, "rm", "a-0", "a-1", "--yes")
	require.Equal(t, []string{"a-1", "a-0"}, names)
	require.Equal(t, []string{"a-2", "a-3", "a-4", "b-5"}, foldersOf(t, home))
}

// Meanwhile a coordinator of another experiment keeps recording.
func TestRmBesideARunningSwarm(t *testing.T) {
	t.Parallel()
	home := prunedHome(t)
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "live-1", Experiment: "live", Rounds: 900, NodeIDs: []string{"node_0"}, Started: 9000}))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	rounds := 0
	go func() {
		for {
			select {
			case <-stop:
				stopped <- s.Close()
				return
			case <-time.After(time.Millisecond):
				err := s.Record(t.Context(), event.Event{Type: event.TypeRound, Run: "live-1", Node: "node_0", Time: float64(9000 + rounds), Round: &event.Round{Round: rounds}})
				if err != nil {
					stopped <- err
					return
				}
				rounds++
			}
		}
	}()
	_, names := removed(t, home, "rm", "a", "b", "--yes")
	close(stop)
	require.NoError(t, <-stopped)
	require.Len(t, names, 6)
	d := ls(t, home)
	require.Equal(t, []string{"live-1"}, runNames(d))
	require.Equal(t, rounds, d.Runs[0].Round)
}
