package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestTypedWordsKnowsFlagsFromValues(t *testing.T) {
	t.Parallel()
	args := []string{"--home", "up", "up", "4loc4ext", "--on-complete", "--fresh", "-yo", "json", "-ojson", "--dashboard", "--nodes=2", "--", "--fresh"}
	words := typedWords(args, commandFlags(args))
	require.Equal(t, args, textsOf(words))
	require.Equal(t, []string{"--home", "up", "up", "4loc4ext", "--on-complete", "--fresh", "--dashboard", "--nodes=2", "--", "--fresh"},
		textsOf(withoutFlags(words, "fresh", "output")), "--fresh is the value of --on-complete, and an argument")
	require.Equal(t, []string{"home", "home", "", "", "on-complete", "on-complete"}, namesIn(words[:6]))
	require.Equal(t, "up", commandName(args))
	require.Empty(t, commandName([]string{"--home", "up"}))
}

func namesIn(words []typedWord) (names []string) {
	for _, w := range words {
		names = append(names, w.flag)
	}
	return names
}

// What lets somebody in, or might, is not recorded; with the run's folder it is not lost.
func TestSecretsAreMaskedAndComeBack(t *testing.T) {
	t.Parallel()
	const invitation, hook, bus, done = "tls://203.0.113.7:4222?fp=abc#hush", "https://hooks.example/hush", "nats://anna:hush@bus:4222", "curl -H hush"
	for _, args := range [][]string{
		{"up", "4loc4ext", "--webhook", hook, "--on-complete=" + done, "--nats", bus, "--fresh", "-o", "json"},
		{"join", invitation, "--nodes", "2"},
	} {
		dir := t.TempDir()
		g := &globals{args: args, home: "/h"}
		c, secrets := g.typedHere()
		recorded, err := json.Marshal(c)
		require.NoError(t, err)
		require.NotContains(t, string(recorded), "hush")
		require.Len(t, c.Arguments, len(args))
		require.NoError(t, secrets.write(dir))
		info, err := os.Stat(secretsPath(dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		words, err := resumedWords(g, store.Run{Run: "r-1"}, c, readSecrets(dir), []string{"--rounds=9"})
		require.NoError(t, err)
		want := map[string][]string{
			"up":   {"up", "4loc4ext", "--webhook", hook, "--on-complete=" + done, "--nats", bus, "--home=/h", "--rounds=9", "--only-run=r-1"},
			"join": {"join", invitation, "--nodes", "2", "--home=/h", "--rounds=9"},
		}[args[0]]
		require.Equal(t, want, words)

		_, err = resumedWords(g, store.Run{Run: "r-1"}, c, commandSecrets{}, nil)
		require.ErrorContains(t, err, "no longer in /h/runs/r-1/secrets.json")
		require.NoError(t, commandSecrets{}.write(dir))
		require.NoFileExists(t, secretsPath(dir), "a later attempt without any leaves none")
	}
	g := &globals{home: "/h"}
	words, err := resumedWords(g, store.Run{Run: "r-1"}, store.Command{Arguments: []string{"up", "--webhook", masked, "--nodes", "2"}}, commandSecrets{},
		[]string{"--webhook=" + hook, "--nodes=3"})
	require.NoError(t, err)
	require.Equal(t, []string{"up", "--home=/h", "--webhook=" + hook, "--nodes=3", "--only-run=r-1"}, words, "a new value does, and stands there once")
}

// The variables of the present shell decide nothing that the first ones did not.
func TestAResumedRunHasTheVariablesThatItBeganWith(t *testing.T) {
	t.Parallel()
	c := store.Command{Environment: []string{"SWARM_SEED=7", "CUDA_VISIBLE_DEVICES=1", "SWARM_JOIN=" + masked}}
	secrets := commandSecrets{Environment: map[string]string{resolve.InvitationVariable: "tls://x#y"}}
	require.ElementsMatch(t, []string{"PATH=/bin", "SWARM_SEED=7", "CUDA_VISIBLE_DEVICES=0", "SWARM_JOIN=tls://x#y"},
		environWith([]string{"PATH=/bin", "SWARM_SEED=9", "SWARM_MODEL=gpt2", "MODEL_NAME=gpt2", "CUDA_VISIBLE_DEVICES=0"}, c, secrets))
}

// interrupted is a home with a run of 20 rounds in that state, which somebody began with these words in that folder.
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

// Whoever looks at a run that ended too early reads what to type; of a crashed one also when, why, and that its nodes are gone.
func TestStatusSaysWhatToType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state string
		words []string
		want  []string
		not   string
	}{
		{stats.StateCrashed, []string{"up", "4loc4ext"}, []string{
			"node_0  crashed", "node_1  crashed", "ended without recording why", "Last heard of at " + time.Now().Format("2006-"), " ago.", "resume e-1\n", "logs e-1\n",
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

// resume types the command again, from the folder that it was typed in; here that is refused, by which one sees that it was typed.
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
		"not recorded":     {interrupted(t, store.RunStopped, "", nil...), []string{"--num-generations", "5"}, fail.ExitUsage, "run e-1 can't go on with another configuration:\n  num_generations 8 → 5"},
		"done":             {interrupted(t, store.RunDone, folder, typed...), []string{"e"}, fail.ExitDone, "e-1 has done all its 20 rounds. To prolong it: "},
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

// The baseline that a summary proposes is this run without sharing: every flag that makes it comparable is there.
func TestTheBaselineHasTheRunsSettings(t *testing.T) {
	t.Parallel()
	g := &globals{home: layout.Home(layout.Default(os.Getenv))}
	require.Empty(t, g.baseline(configs.Default(), "", stats.Summary{}), "it shares nothing itself")
	var flags resolve.Flags
	set := map[string]string{"rounds": "5", "learning_rate": "0.0002", "seed": "7", "eval_questions": "0", "model": "nano"}
	for name, value := range set {
		key, err := configs.FindKey(name)
		require.NoError(t, err)
		flags.Keys = append(flags.Keys, &resolve.KeyFlag{Key: key, Text: value, Given: true})
	}
	flags.Config = []string{"4loc4ext"}
	config, _, _, err := configSources(nil, false).Config(&flags)
	require.NoError(t, err)
	summary := stats.Summary{}
	summary.Nodes = []stats.NodeStatus{{ID: "node_0"}, {ID: "node_1"}, {ID: "anna_0", Worker: "anna"}}
	_, words, _ := strings.Cut(g.baseline(config, "", summary), " up ")
	require.Equal(t, "--config 8loc0ext --nodes 2 --rounds 5 --model nano --seed 7 --learning-rate 0.0002 --eval-questions 0", words)
}
