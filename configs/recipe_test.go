package configs

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every preset's recipe is valid, and the presets with embedded weights have one.
func TestRecipes(t *testing.T) {
	require.NoError(t, DefaultRecipe().Validate())
	for _, name := range Models() {
		m, err := LoadModel(name)
		require.NoError(t, err)
		if m.Weights == Embedded {
			require.NotNil(t, m.Pretrain, name)
		}
		if m.Pretrain != nil {
			require.NoError(t, m.Pretrain.Validate(), name)
		}
	}
}

func TestRecipeValidate(t *testing.T) {
	for key, spoil := range map[string]func(*Recipe){
		"steps":         func(r *Recipe) { r.Steps = 0 },
		"batch":         func(r *Recipe) { r.Batch = -1 },
		"learning_rate": func(r *Recipe) { r.LearningRate = math.NaN() },
		"tag_share":     func(r *Recipe) { r.TagShare = 1.1 },
		"tag_shares":    func(r *Recipe) { r.TagShares = map[string]float64{"": 0.5} },
		"tag_shares.bf": func(r *Recipe) { r.TagShares = map[string]float64{"bf": math.NaN()} },
		"weights":       func(r *Recipe) { r.Weights = map[string]float64{"juggling": 1} },
		"weights.bf":    func(r *Recipe) { r.Weights = map[string]float64{"arc_1d": 2, "bf": 0} },
	} {
		r := DefaultRecipe()
		spoil(&r)
		var e *Error
		require.ErrorAs(t, r.Validate(), &e, key)
		require.Equal(t, key, e.Key)
	}
}

func TestTagShareOf(t *testing.T) {
	r := Recipe{TagShare: 0.2, TagShares: map[string]float64{"bf": 0}}
	require.Zero(t, r.TagShareOf("bf"))
	require.Equal(t, 0.2, r.TagShareOf("arc_1d"))
}

func TestWeigh(t *testing.T) {
	mixture := []TaskSpec{{Name: "bf", Weight: 2}, {Name: "arc_1d", Weight: 1}}
	weighed := Recipe{Weights: map[string]float64{"bf": 1.5}}.Weigh(mixture)
	require.Equal(t, []float64{3, 1}, []float64{weighed[0].Weight, weighed[1].Weight})
	require.Equal(t, 2.0, mixture[0].Weight, "the mixture itself is left alone")
}
