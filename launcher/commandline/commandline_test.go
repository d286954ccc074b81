package commandline

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
)

func TestMain(m *testing.M) { os.Exit(hermetic.Main(m)) }

// grammar has one of the program's flags of each kind.
var grammar = Grammar{
	Flags: func([]string) *pflag.FlagSet {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range []string{"home", "on-complete", "webhook", "nats", "nodes", "rounds", "dashboard", OnlyRunFlag} {
			f.String(name, "", "")
		}
		f.Lookup("dashboard").NoOptDefVal = "127.0.0.1:8420"
		f.StringP("output", "o", "text", "")
		f.BoolP("yes", "y", false, "")
		f.Bool("fresh", false, "")
		return f
	},
	Name: func(args []string) string { return args[0] },
}

func sources([]string, bool) resolve.Sources { return resolve.Sources{FindModel: model.Find} }

func TestTypedWordsKnowsFlagsFromValues(t *testing.T) {
	t.Parallel()
	args := []string{"--home", "up", "up", "4loc4ext", "--on-complete", "--fresh", "-yo", "json", "-ojson", "--dashboard", "--nodes=2", "--", "--fresh"}
	words := grammar.words(args)
	require.Equal(t, args, textsOf(words))
	require.Equal(t, []string{"--home", "up", "up", "4loc4ext", "--on-complete", "--fresh", "--dashboard", "--nodes=2", "--", "--fresh"},
		textsOf(withoutFlags(words, "fresh", "output")), "--fresh is the value of --on-complete, and an argument")
	require.Equal(t, []string{"home", "home", "", "", "on-complete", "on-complete"}, namesIn(words[:6]))
}

func namesIn(words []typedWord) (names []string) {
	for _, w := range words {
		names = append(names, w.flag)
	}
	return names
}

// Invitations and possible secrets are not recorded, but the run's folder keeps them.
func TestSecretsAreMaskedAndComeBack(t *testing.T) {
	t.Parallel()
	const invitation, hook, bus, done = "tls://203.0.113.7:4222?fp=abc#hush", "https://hooks.example/hush", "nats://anna:hush@bus:4222", "curl -H hush"
	for _, args := range [][]string{
		{"up", "4loc4ext", "--webhook", hook, "--on-complete=" + done, "--nats", bus, "--fresh", "-o", "json"},
		{"join", invitation, "--nodes", "2"},
	} {
		dir := t.TempDir()
		c, secrets := Typed(args, grammar)
		recorded, err := json.Marshal(c)
		require.NoError(t, err)
		require.NotContains(t, string(recorded), "hush")
		require.Len(t, c.Arguments, len(args))
		require.NoError(t, secrets.Write(dir))
		info, err := os.Stat(secretsPath(dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		words, err := resumedWords("/h", grammar, store.Run{Run: "r-1"}, c, readSecrets(dir), []string{"--rounds=9"})
		require.NoError(t, err)
		want := map[string][]string{
			"up":   {"up", "4loc4ext", "--webhook", hook, "--on-complete=" + done, "--nats", bus, "--home=/h", "--rounds=9", "--only-run=r-1"},
			"join": {"join", invitation, "--nodes", "2", "--home=/h", "--rounds=9"},
		}[args[0]]
		require.Equal(t, want, words)

		_, err = resumedWords("/h", grammar, store.Run{Run: "r-1"}, c, Secrets{}, nil)
		require.ErrorContains(t, err, "no longer in /h/runs/r-1/secrets.json")
		require.NoError(t, Secrets{}.Write(dir))
		require.NoFileExists(t, secretsPath(dir), "a later attempt without any leaves none")
	}
	words, err := resumedWords("/h", grammar, store.Run{Run: "r-1"}, store.Command{Arguments: []string{"up", "--webhook", masked, "--nodes", "2"}}, Secrets{},
		[]string{"--webhook=" + hook, "--nodes=3"})
	require.NoError(t, err)
	require.Equal(t, []string{"up", "--home=/h", "--webhook=" + hook, "--nodes=3", "--only-run=r-1"}, words, "a new value does, and stands there once")
}

// Variables of the current shell have no effect on a resumed run, except those that had one before.
func TestAResumedRunHasTheVariablesThatItBeganWith(t *testing.T) {
	t.Parallel()
	c := store.Command{Environment: []string{"SWARM_SEED=7", "CUDA_VISIBLE_DEVICES=1", "SWARM_JOIN=" + masked}}
	secrets := Secrets{Environment: map[string]string{resolve.InvitationVariable: "tls://x#y"}}
	require.ElementsMatch(t, []string{"PATH=/bin", "SWARM_SEED=7", "CUDA_VISIBLE_DEVICES=0", "SWARM_JOIN=tls://x#y"},
		environWith([]string{"PATH=/bin", "SWARM_SEED=9", "SWARM_MODEL=gpt2", "MODEL_NAME=gpt2", "CUDA_VISIBLE_DEVICES=0"}, c, secrets))
}

// The baseline that a summary suggests is this run without sharing. It has every flag that makes the two
// comparable.
func TestTheBaselineHasTheRunsSettings(t *testing.T) {
	t.Parallel()
	advice := Advice{Program: "swarm", Grammar: grammar, Sources: sources}
	require.Empty(t, advice.Baseline(configs.Default(), "", stats.Summary{}), "it shares nothing itself")
	var flags resolve.Flags
	set := map[string]string{"rounds": "5", "learning_rate": "0.0002", "seed": "7", "eval_questions": "0", "model": "nano"}
	for name, value := range set {
		key, err := configs.FindKey(name)
		require.NoError(t, err)
		flags.Keys = append(flags.Keys, &resolve.KeyFlag{Key: key, Text: value, Given: true})
	}
	flags.Config = []string{"4loc4ext"}
	config, _, _, err := sources(nil, false).Config(&flags)
	require.NoError(t, err)
	summary := stats.Summary{}
	summary.Nodes = []stats.NodeStatus{{ID: "node_0"}, {ID: "node_1"}, {ID: "anna_0", Worker: "anna"}}
	_, words, _ := strings.Cut(advice.Baseline(config, "", summary), " up ")
	require.Equal(t, "--config 8loc0ext --nodes 2 --rounds 5 --model nano --seed 7 --learning-rate 0.0002 --eval-questions 0", words)
}
