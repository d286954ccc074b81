package units

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesAreReadAlike(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"40": 40e9, " 40 ": 40e9, "40GB": 40e9, "40 gb": 40e9, "40g": 40e9, "40000MB": 40e9, "40000m": 40e9, "40GiB": 40 << 30, "40960MiB": 40 << 30,
		"0.5": 5e8, "4096": 4096e9, "40000000000": 40e9, "1000000": 1e6, "512MB": 512e6, "2000000B": 2e6,
	} {
		got, err := ParseSize(text, GB)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]int64{"24": 24 << 30, "24GB": 24 << 30, "23.5g": 47 << 29, "24GiB": 24 << 30, "24000MB": 24e9} {
		got, err := ParseSize(text, GiB)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "0GB", "-24", "24576", "999999", "much", "24TBs", "NaN", "inf", "1e300", "0x10GB", "1_0GB", "10B", "GB"} {
		_, err := ParseSize(text, GB)
		require.ErrorIs(t, err, ErrSize, text)
	}
}
