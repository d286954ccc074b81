package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// inProcess runs the program in this process, for commands that read no terminal and start no process.
func inProcess(t testing.TB, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"--home", t.TempDir()}, args...), strings.NewReader(""), &stdout, &stderr)
	o := outcome{code, stdout.String(), stderr.String()}
	requireHints(t, args, o)
	return o
}

// A misspelled command, flag, key or preset gets a suggestion of the nearest name.
func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"upp":                       "Error: unknown command \"upp\": did you mean \"up\"?\nTry: swarm up --help\n",
		"staus":                     "Error: unknown command \"staus\": did you mean \"status\"?\nTry: swarm status --help\n",
		"frobnicate":                "Error: unknown command \"frobnicate\"\nTry: swarm --help\n",
		"model sve":                 "Error: unknown command \"sve\" for swarm model: did you mean \"save\"?\nTry: swarm model save --help\n",
		"task scroe":                "Error: unknown command \"scroe\" for swarm task: did you mean \"score\"?\nTry: swarm task score --help\n",
		"service instal":            "Error: unknown command \"instal\" for swarm service: did you mean \"install\"?\nTry: swarm service install --help\n",
		"up --learning-rat 3":       "Error: unknown flag: --learning-rat: did you mean --learning-rate?\nTry: swarm up --help\n",
		"up --learning_rate 3":      "Error: unknown flag: --learning_rate: did you mean --learning-rate?\nTry: swarm up --help\n",
		"plan --gpu-memmory 3GB":    "Error: unknown flag: --gpu-memmory: did you mean --gpu-memory?\nTry: swarm plan --help\n",
		"status --hme x":            "Error: unknown flag: --hme: did you mean --home?\nTry: swarm status --help\n",
		"up --frobnicate":           "Error: unknown flag: --frobnicate\nTry: swarm up --help\n",
		"up -z":                     "Error: unknown shorthand flag: 'z' in -z\nTry: swarm up --help\n",
		"up --set learning_rat=3":   "Error: unknown key \"learning_rat\" (--set): did you mean \"learning_rate\"?\n",
		"service install -- --rond": "Error: unknown flag: --rond: did you mean --rounds?\nTry: swarm up --help\n",
	} {
		o := inProcess(t, strings.Fields(args)...)
		require.Equal(t, outcome{fail.ExitUsage, "", want}, o, args)
	}
	o := inProcess(t, "plan", "4loc5ext")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, "Error: unknown config \"4loc5ext\": did you mean \"4loc4ext\"? Allowed: 8loc0ext, ")
}

// An argument of up, plan and profile means --config.
func TestArgumentsAreConfigurations(t *testing.T) {
	for _, tt := range []struct {
		flags, args, want, err string
	}{
		{"", "4loc4ext", "4loc4ext", ""},
		{"", "mine.yaml 4loc4ext", "mine.yaml,4loc4ext", ""},
		{"", "mine.yaml,4loc4ext", "mine.yaml,4loc4ext", ""},
		{"--config 4loc4ext", "4loc4ext", "4loc4ext", ""},
		{"--config 4loc4ext,mine.yaml", "mine.yaml 4loc4ext", "mine.yaml,4loc4ext", ""},
		{"--config 4loc4ext", "", "4loc4ext", ""},
		{"--config 8loc0ext", "4loc4ext", "", `the argument "4loc4ext" and --config 8loc0ext name two configurations; one of them`},
		{"--config mine.yaml", "4loc4ext", "", `the argument "4loc4ext" and --config mine.yaml name two configurations; --config mine.yaml,4loc4ext for both`},
	} {
		var f resolve.Flags
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.AddFlags(fs)
		require.NoError(t, fs.Parse(strings.Fields(tt.flags)))
		err := f.TakeArgs(strings.Fields(tt.args))
		if tt.err != "" {
			var usage *fail.UsageError
			require.ErrorAs(t, err, &usage)
			require.Equal(t, tt.err, usage.Error()+"; "+usage.Try)
			continue
		}
		require.NoError(t, err, tt)
		require.Equal(t, tt.want, strings.Join(f.Config, ","))
	}
	byFlag, byArgument := inProcess(t, "plan", "--config", "4loc4ext", "--device", "cpu", "--nodes", "3"), inProcess(t, "plan", "4loc4ext", "--device", "cpu", "--nodes", "3")
	require.Equal(t, fail.ExitDone, byArgument.code, byArgument.stderr)
	require.Equal(t, byFlag, byArgument)
	for _, command := range []string{"up", "plan", "profile"} {
		o := inProcess(t, command, "4loc4ext", "2loc6ext")
		require.Equal(t, fail.ExitUsage, o.code)
		require.Equal(t, "Error: bad config \"2loc6ext\" (--config): allowed: one preset (4loc4ext is another)\n", o.stderr, command)
	}
}

func TestWhatIsNoPriceIsAMistake(t *testing.T) {
	o := inProcess(t, "sweep", "8loc0ext", "--price", "free", "--dry-run")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, `Error: bad price "free" (--price): allowed: a price per hour above 0`)
}
