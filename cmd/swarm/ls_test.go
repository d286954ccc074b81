package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// listedHome has runs a-0, a-1, b-2 (stopped) and, imported, c-9; a-1 has a folder of 2,000,000 bytes.
func listedHome(t *testing.T) string {
	t.Helper()
	home := comparedHome(t, comparedRun{experiment: "a", seed: 1, reward: 0.3}, comparedRun{experiment: "a", seed: 2, reward: 0.3},
		comparedRun{experiment: "b", seed: 1, reward: 0.3, left: 5})
	writeRunFile(t, home, "a-1", "node_0/checkpoint-00000020.safetensors", 2_000_000)
	other := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(other, "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "c-9", Experiment: "c", Rounds: 20, Nodes: 3, Started: 500}))
	require.NoError(t, s.Record(t.Context(), endOfRun("c-9", 600, store.RunDone)))
	require.NoError(t, s.Close())
	o := swarm(t, home, "import", filepath.Join(other, "swarm.db"))
	require.Equal(t, 0, o.code, o.stderr)
	return home
}

func endOfRun(run string, at float64, state event.State) event.Event {
	return event.Event{Type: event.TypeRunEnded, Run: run, Time: at, State: state}
}

func writeRunFile(t *testing.T, home, run, name string, size int) string {
	t.Helper()
	path := filepath.Join(home, "runs", run, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o644))
	return path
}

func ls(t *testing.T, home string, args ...string) runs.Listing {
	t.Helper()
	o := swarm(t, home, append([]string{"ls", "-o", "json"}, args...)...)
	require.Equal(t, 0, o.code, o.stderr)
	var d runs.Listing
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	return d
}

func runNames(d runs.Listing) (names []string) {
	for _, r := range d.Runs {
		names = append(names, r.Run)
	}
	return names
}

func TestLsListsRunsNewestFirst(t *testing.T) {
	t.Parallel()
	home := listedHome(t)
	require.Equal(t, []string{"b-2", "a-1", "a-0", "c-9"}, runNames(ls(t, home)))
	require.Equal(t, []string{"a-1", "a-0"}, runNames(ls(t, home, "a")))
	require.Equal(t, []string{"b-2", "a-0"}, runNames(ls(t, home, "a-0", "b")))
	require.Equal(t, []string{"b-2"}, runNames(ls(t, home, "--state", "stopped,crashed")))
	few := ls(t, home, "-n", "1")
	require.Equal(t, []string{"b-2"}, runNames(few))
	require.Equal(t, 4, few.Total)

	r := ls(t, home, "a-1").Runs[0]
	require.Equal(t, []any{"a", "done", 20, 20, 2, false}, []any{r.Experiment, r.State, r.Round, r.Rounds, r.Nodes, r.Imported})
	require.Equal(t, filepath.Join(home, "runs", "a-1"), *r.Folder)
	require.EqualValues(t, 2_000_000, *r.SizeBytes)
	require.InDelta(t, 1150, *r.Ended, 0)
	c := ls(t, home, "c").Runs[0]
	require.True(t, c.Imported)
	require.Nil(t, c.Folder)

	text := swarm(t, home, "ls", "--limit", "3").stdout
	require.Regexp(t, `(?m)^RUN +EXPERIMENT +STATE +ROUNDS +NODES +AGE +SIZE$`, text)
	require.Regexp(t, `(?m)^a-1 +a +done +20/20 +2 +\d+d +2 MB$`, text)
	require.Regexp(t, `(?m)^b-2 +b +stopped +15/20 +2 +\d+d +no files$`, text)
	require.Contains(t, text, "3 of 4 runs. --all shows all.\n")
	require.Regexp(t, `(?m)^c-9 +c +done +0/20 +3 +\d+d +imported$`, swarm(t, home, "ls", "-a").stdout)
}

func TestLsTellsRunningFromCrashed(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pretend(t, home, map[string]string{"live": deaf, "dead": brief})
	states := map[string]string{}
	for _, r := range ls(t, home).Runs {
		states[r.Run] = r.State
	}
	require.Equal(t, map[string]string{"live-1": "running", "dead-1": "crashed"}, states)
	require.Equal(t, []string{"dead-1"}, runNames(ls(t, home, "--state", "crashed")))
	require.Regexp(t, `(?m)^live-1 +live +running +0/40 +1 +now `, swarm(t, home, "ls").stdout)
}

func TestLsOfNothing(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "none")
	require.Equal(t, outcome{0, "No run is recorded under " + home + " yet.\n", ""}, swarm(t, home, "ls"))
	require.Equal(t, "{\n  \"runs\": [],\n  \"total\": 0,\n  \"jobs\": []\n}\n", swarm(t, home, "ls", "-o", "json").stdout)
	require.NoDirExists(t, home)
	home = comparedHome(t, comparedRun{experiment: "a", seed: 1, reward: 0.3})
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, "Error: no run or experiment \"nosuch\" is recorded\nTry: swarm ls\n"},
		{[]string{"--state", "paused"}, "\"paused\" (--state): allowed: running, crashed, done"},
		{[]string{"-n", "0"}, "\"0\" (--limit): allowed: 1 or more"},
	} {
		o := swarm(t, home, append([]string{"ls"}, x.args...)...)
		require.Equal(t, 2, o.code, o.stderr)
		require.Contains(t, o.stderr, x.want)
	}
	require.Equal(t, "No run is crashed.\n", swarm(t, home, "ls", "--state", "crashed").stdout)
}

func TestStatusSaysWhichOtherRunsGoOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pretend(t, home, map[string]string{"one": deaf, "two": deaf, "dead": brief})
	o := swarm(t, home, "status")
	require.Equal(t, 0, o.code, o.stderr)
	var d runs.Overview
	require.NoError(t, json.Unmarshal([]byte(swarm(t, home, "status", "-o", "json").stdout), &d))
	for _, name := range []string{"one-1", "two-1"} {
		require.Equal(t, name != d.Run, strings.Contains(strings.Join(d.OthersRunning, " "), name), "shown %s", d.Run)
		require.Contains(t, o.stdout, name)
	}
	require.NotContains(t, d.OthersRunning, "dead-1")
	require.Contains(t, o.stdout, "running, too: ")
	require.Contains(t, o.stdout, "swarm ls lists all runs.")
}

func TestShellsAreOfferedRuns(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, comparedRun{experiment: "a", seed: 1, reward: 0.3}, comparedRun{experiment: "b", seed: 1, reward: 0.3, left: 5})
	offered := func(args ...string) string {
		o := swarm(t, home, append([]string{"__complete"}, args...)...)
		require.Equal(t, 0, o.code, o.stderr)
		text, _, _ := strings.Cut(o.stdout, ":")
		return text
	}
	require.Equal(t, "b-1\trun, stopped\nb\texperiment\na-0\trun, done\na\texperiment\n", offered("status", ""))
	require.Equal(t, "b\texperiment\na\texperiment\n", offered("compare", ""))
	require.Equal(t, "b\texperiment\na-0\trun, done\na\texperiment\n", offered("ls", "b-1", ""))
	require.Empty(t, offered("down", "a", ""), "down takes one name")
}
