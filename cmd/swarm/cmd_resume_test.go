package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// The properties of the program's flags that resume and the records need.
func TestTheGrammarIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "up", commandName([]string{"--home", "up", "up", "4loc4ext", "--on-complete", "--fresh", "-yo", "json", "--", "--fresh"}))
	require.Empty(t, commandName([]string{"--home", "up"}))
	flags := commandFlags([]string{"up"})
	for _, name := range []string{"home", "on-complete", "webhook", "nats", "nodes", "output"} {
		require.Empty(t, flags.Lookup(name).NoOptDefVal, "%s needs a value", name)
	}
	for _, name := range []string{"fresh", "yes", "dashboard"} {
		require.NotEmpty(t, flags.Lookup(name).NoOptDefVal, "%s needs none", name)
	}
}

// interrupted is a home with a run of 20 rounds in that state, started with these words in that folder.
func interrupted(t *testing.T, state, folder string, words ...string) string {
	t.Helper()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	config, _, _, err := configSources(nil, false).Config(&resolve.Flags{Config: []string{"4loc4ext"}})
	require.NoError(t, err)
	config.Experiment, config.Seed, config.Rounds = "e", 7, 20
	text, err := json.Marshal(config)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	run := store.Run{
		Run: "e-1", Experiment: "e", Preset: "4loc4ext", Seed: 7, Rounds: 20, Model: "nano", NodeIDs: []string{"node_0", "node_1"}, Config: text, PID: 1 << 22, Host: host,
		Started: event.Now() - 300,
	}
	if words != nil {
		run.Command = &store.Command{Folder: folder, Arguments: words, Environment: []string{"SEED=7"}}
	}
	require.NoError(t, s.StartRun(t.Context(), run))
	require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeState, Run: "e-1", Node: "node_0", Time: event.Now() - 200, State: event.StateUpdating}))
	if state != stats.StateCrashed {
		require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRunEnded, Run: "e-1", Time: event.Now() - 100, State: event.State(state)}))
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", "e-1"), 0o755))
	return home
}

// Status of a run that ended too early shows the command to type. For a crashed run it also shows when, why, and that
// the nodes are gone.
func TestStatusSaysWhatToType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state string
		words []string
		want  []string
		not   string
	}{
		{stats.StateCrashed, []string{"up", "4loc4ext"}, []string{
			"node_0  crashed", "node_1  crashed", "ended without recording why", "Last seen at " + time.Now().Format("2006-"), " ago.", "resume e-1\n", "logs e-1\n",
		}, "updating"},
		{store.RunStopped, nil, []string{"\nContinue with: ", " resume e-1\n", "node_0  stopped"}, "logs"},
		{store.RunFailed, nil, []string{" resume e-1\n", " logs e-1\n"}, "updating"},
		{store.RunStopped, []string{"sweep", "4loc4ext", "--seeds", "3"}, []string{"\nContinue with: cd '/my work' && SEED=7 swarm sweep 4loc4ext --seeds 3\n"}, "resume"},
		{store.RunDone, []string{"up"}, []string{"node_0  done"}, "Continue"},
	} {
		home := interrupted(t, tt.state, "/my work", tt.words...)
		o := swarm(t, home, "status", "e")
		require.Zero(t, o.code, o.stderr)
		for _, want := range tt.want {
			require.Contains(t, o.stdout, want)
		}
		require.NotContains(t, o.stdout, tt.not)
		if tt.state == stats.StateCrashed {
			require.Equal(t, "SEED=7 swarm up 4loc4ext", status(t, home).Command.Line)
			_, o := down(t, home, "e")
			require.Zero(t, o.code, o.stderr)
			require.Contains(t, swarm(t, home, "down", "e").stdout, " resume e-1\n")
		}
	}
}

// resume runs the original command again, from its original folder. In this test the command is refused, which shows
// that resume ran it.
func TestResumeTypesTheCommandAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.yaml"), []byte("num_generations: many\n"), 0o600))
	typed := []string{"up", "--config", "mine.yaml"}
	for name, tt := range map[string]struct {
		home string
		args []string
		code int
		want string
	}{
		"relative paths":   {interrupted(t, stats.StateCrashed, folder, typed...), nil, fail.ExitUsage, "mine.yaml:1"},
		"by name":          {interrupted(t, store.RunStopped, folder, typed...), []string{"e-1"}, fail.ExitUsage, "mine.yaml:1"},
		"an extra flag":    {interrupted(t, store.RunStopped, folder, "up", "--rounds", "2"), []string{"--rounds", "many"}, fail.ExitUsage, `Error: bad rounds "many" (--rounds)`},
		"another seed":     {interrupted(t, store.RunStopped, folder, "up", "--name", "e"), []string{"--seed", "8"}, fail.ExitUsage, "is of experiment e with seed 7, not of e with seed 8"},
		"not recorded":     {interrupted(t, store.RunStopped, "", nil...), []string{"--num-generations", "5"}, fail.ExitUsage, "run e-1 cannot continue with another configuration:\n  num_generations 8 → 5"},
		"done":             {interrupted(t, store.RunDone, folder, typed...), []string{"e"}, fail.ExitDone, "e-1 has done all its 20 rounds. To extend it: "},
		"none interrupted": {interrupted(t, store.RunDone, folder, typed...), nil, fail.ExitUsage, "Error: no run was interrupted\n"},
		"a sweep's":        {interrupted(t, store.RunFailed, folder, "sweep", "4loc4ext"), nil, fail.ExitUsage, "Try: cd " + folder + " && SEED=7 swarm sweep 4loc4ext\n"},
		"unknown":          {interrupted(t, store.RunFailed, folder, typed...), []string{"f"}, fail.ExitUsage, `no run or experiment "f" is recorded`},
		"fresh":            {interrupted(t, store.RunFailed, folder, typed...), []string{"--fresh"}, fail.ExitUsage, "--fresh begins a new one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := swarm(t, tt.home, append([]string{"resume"}, tt.args...)...)
			require.Equal(t, tt.code, o.code, o.stdout+o.stderr)
			require.Contains(t, o.stdout+o.stderr, tt.want)
		})
	}
}
