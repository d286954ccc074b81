package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A T4 has fp16 units and no TF32, so auto is fp16 there, unless the user sets another precision or a better card is
// present.
func TestPrecisionAutoGoesByTheCards(t *testing.T) {
	t.Parallel()
	const said, reduced = "precision auto selects fp16: Tesla T4 has no TF32", "weights in 16 bits"
	for _, tt := range []struct {
		name, gpus string
		args       []string
		fp16       bool
	}{
		{"T4", t4 + ":capability=7", nil, true},
		{"not told", t4, nil, false},
		{"asked for", t4 + ":capability=7", []string{"--precision", "fp32"}, false},
		{"one of them newer", t4 + ":capability=7;" + a100x80 + ":capability=8", nil, false},
		{"before tensor cores", t4 + ":capability=6", nil, false},
		{"a card that is not there", t4 + ":capability=7", []string{"--gpu-memory", "15GB"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := onGPUs(t, t.TempDir(), tt.gpus, append([]string{"plan", "--model", "gpt2"}, tt.args...)...)
			require.Equal(t, 0, o.code, o.stderr)
			for text, in := range map[string]string{said: o.stderr, reduced: o.stdout} {
				if tt.fp16 {
					require.Contains(t, in, text)
				} else {
					require.NotContains(t, in, text)
				}
			}
		})
	}
	o := onGPUs(t, t.TempDir(), t4+":capability=7", "plan", "--model", "nano", "--device", "cpu")
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stderr, "precision")
}
