package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const userStudy = `question: why?
baseline: a
measure: reward
seeds: 5
rounds: 10
experiments:
  - {name: a, config: 8loc0ext}
  - {name: b, config: 4loc4ext}
`

func TestRunsTellTheirStudies(t *testing.T) {
	t.Parallel()
	mine, err := configs.ParseStudyFile("paper-mini.yaml", []byte(userStudy))
	require.NoError(t, err)
	for experiments, want := range map[string]string{
		"paper-8loc0ext/nano paper-2loc6ext/nano":                                 "paper nano",
		"paper-8loc0ext/nano paper-gpt2-8loc0ext/gpt2 corrected-2loc6ext/nano":    "paper nano, paper gpt2, corrected nano",
		"off-policy-4loc4ext-importance/nano":                                     "off-policy nano",
		"specialists-2loc6ext/nano":                                               "specialists nano",
		"specialists-all-8loc0ext/nano":                                           "specialists nano",
		"control-8loc0ext/nano":                                                   "control nano",
		"sparse-tags-8loc0ext/./sparse-tags":                                      "sparse-tags",
		"off-policy-mine-4loc4ext-importance/./mine":                              "off-policy mine",
		"sparse-folder-nano-8loc0ext//m/nano":                                     "sparse folder-nano",
		"mixed-models-mixed/nano":                                                 "mixed-models",
		"mixed-models-gpt2-mixed/nano paper-gpt2-8loc0ext/nano 8loc0ext/nano x/y": "",
		"paper-mini-a/nano paper-mini-gpt2-b/gpt2":                                "paper-mini nano, paper-mini gpt2",
		"paper-mini-8loc0ext/nano":                                                "",
	} {
		var runs []store.Run
		for _, text := range strings.Fields(experiments) {
			experiment, model, _ := strings.Cut(text, "/")
			runs = append(runs, store.Run{Experiment: experiment, Model: model})
		}
		found, err := Recorded(runs, mine)
		require.NoError(t, err)
		var names []string
		for _, o := range found {
			names = append(names, strings.TrimSpace(o.Study.Name+" "+o.Study.Model))
			require.NotEmpty(t, o.Measure)
			require.Len(t, o.Study.Arms, len(o.Study.Experiments()))
		}
		require.Equal(t, want, strings.Join(names, ", "), experiments)
	}
}

// The experiments of a study with one base are compared by their settings. Their models may not differ.
func TestABaseIsNotCompared(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"sparse-tags": false, "teacher": true, "paper": false} {
		s, err := configs.LoadStudy(name)
		require.NoError(t, err)
		keys, err := Keys(s, "")
		require.NoError(t, err)
		require.Equal(t, want, slices.Contains(keys, "weights"), name)
		require.Contains(t, keys, "num_transplant_trees", name)
	}
}
