package commandline

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// The user's flags become arguments in the form that every flag accepts, with lists value by value.
func TestGivenFlagsBecomeArguments(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringSlice("config", nil, "")
	f.StringArray("set", nil, "")
	f.Bool("yes", false, "")
	f.String("home", "", "")
	f.Int("rounds", 3, "")
	require.NoError(t, f.Parse([]string{"--set", "a=1,2", "--config", "x,y", "--yes", "--home", "/h"}))
	home := func(name string) bool { return name == "home" }
	require.Equal(t, []string{"--config=x", "--config=y", "--set=a=1,2", "--yes=true"}, Given(f, home, nil))
	named := func(flag *pflag.Flag, text string) string { return flag.Name + ":" + text }
	require.Equal(t, []string{"--config=config:x", "--config=config:y", "--set=set:a=1,2", "--yes=yes:true"}, Given(f, home, named))
}

// A run of a sweep continues with the sweep, any other run with resume.
func TestWhatGoesOnWithARun(t *testing.T) {
	advice := Advice{Program: "bin/swarm", Grammar: grammar}
	require.Equal(t, "bin/swarm resume e-1", advice.GoesOn("e-1", nil))
	require.Equal(t, "bin/swarm resume e-1", advice.GoesOn("e-1", &stats.Command{Arguments: []string{"up"}}))
	sweep := &stats.Command{Folder: "/my work", Arguments: []string{"sweep", "4loc4ext"}, Environment: []string{"SEED=7"}}
	require.Equal(t, "cd '/my work' && SEED=7 swarm sweep 4loc4ext", advice.GoesOn("e-1", sweep))
	pilots := &stats.Command{Folder: "/w", Arguments: []string{"tune", "--workload", "sapo"}}
	require.Equal(t, "cd /w && swarm tune --workload sapo", advice.GoesOn("e-1", pilots))
}
