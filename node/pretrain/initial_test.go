package pretrain

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/model"
)

// The initial weights have the given shape and are a function of the seed.
func TestWriteInitial(t *testing.T) {
	shape := configs.Shape{Layers: 2, Heads: 2, Width: 16, Context: 32, Vocabulary: 257}
	write := func(seed int64) []byte {
		dir := t.TempDir()
		require.NoError(t, writeInitial(dir, shape, 256, seed))
		got, err := model.Inspect(dir)
		require.NoError(t, err)
		require.Equal(t, []int{2, 16, 32}, []int{got.Layers, got.Width, got.Context})
		data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		return data
	}
	first := write(1)
	require.Equal(t, first, write(1))
	require.NotEqual(t, first, write(2))
}

// A matrix preserves the scale of its inputs at any width. Matrices that add to the residual stream reduce it.
func TestInitialScales(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int64{64, 256} {
		s := configs.Shape{Layers: 8, Width: int(width)}
		deviation := func(name string, shape ...int64) float64 {
			fill, squares := filling(rng, s, name, shape), 0.0
			elements := int(model.Tensor{Shape: shape}.Elements())
			for i := range elements {
				x := fill(i)
				squares += x * x
			}
			return math.Sqrt(squares / float64(elements))
		}
		root := math.Sqrt(float64(width))
		require.InEpsilon(t, 0.7/root, deviation("h.0.attn.c_attn.weight", width, 3*width), 0.03)
		require.InEpsilon(t, 0.7/root/4, deviation("h.7.attn.c_proj.weight", width, width), 0.03)
		require.InEpsilon(t, 0.7/(2*root)/4, deviation("h.7.mlp.c_proj.weight", 4*width, width), 0.03)
		require.InEpsilon(t, 0.05/math.Sqrt2, deviation("wpe.weight", 100, width), 0.03, "sines and cosines")
		require.Zero(t, deviation("h.0.mlp.c_fc.bias", 4*width))
		require.Equal(t, 1.0, deviation("h.0.ln_1.weight", width))
	}
}

// The inner product of two positions' encodings depends only on their distance, which attention can compare.
func TestSinusoidsCompare(t *testing.T) {
	product := func(a, b int) (sum float64) {
		for c := range 32 {
			sum += sinusoid(a, c, 32) * sinusoid(b, c, 32)
		}
		return sum
	}
	for _, distance := range []int{0, 1, 7, 40} {
		want := product(3, 3+distance)
		require.InDelta(t, want, product(100, 100+distance), 1e-9)
		require.InDelta(t, want, product(200, 200+distance), 1e-9)
	}
	require.InDelta(t, 16, product(5, 5), 1e-9)
	require.Less(t, product(5, 6), 16.0)
}
