package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// sweep and report use the same experiment names, however the user names the model.
func TestASweepAndItsReportNameExperimentsAlike(t *testing.T) {
	t.Parallel()
	mine := filepath.Join(t.TempDir(), "nano")
	require.NoError(t, os.CopyFS(mine, os.DirFS(tinyModel())))
	for _, model := range []string{"", "nano", "gpt2", "openai-community/gpt2", tinyModel(), mine, mine + "/"} {
		var args []string
		if model != "" {
			args = []string{"--model", model}
		}
		user, _ := flagsOf(t, args...)
		loaded, err := study.Load("paper", &user.Config, false)
		require.NoError(t, err)
		sources, err := loaded.Sources()
		require.NoError(t, err)
		design := study.Design(loaded.Study, model)
		for i, source := range sources {
			require.Equal(t, design.Arms[i].Experiment, source.Values["experiment"])
		}
		require.Equal(t, design.Arms[0].Experiment == "paper-8loc0ext", design.Model == "nano")
	}
	require.Equal(t, "folder-nano", study.Design(configs.Study{Name: "paper"}, mine).Model)
}

func TestAStudysMeasureIsOneOfCompares(t *testing.T) {
	t.Parallel()
	for _, name := range configs.Studies() {
		found, err := configs.LoadStudy(name)
		require.NoError(t, err)
		require.Contains(t, stats.Measures(), found.Measure)
	}
	require.Equal(t, []string{stats.MeasurePass, stats.MeasureReward}, []string{configs.MeasurePass, configs.MeasureReward})
}
