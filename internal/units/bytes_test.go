package units

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		n                                  int64
		plain, short, gib, measured, torch string
	}{
		{0, "0 MB", "0 MB", "0 MiB", "–", "0 bytes"},
		{1, "1 kB", "0 MB", "0 MiB", "1 kB", "1 bytes"},
		{2_500, "2 kB", "0 MB", "0 MiB", "2 kB", "2500 bytes"},
		{394e6, "394 MB", "394 MB", "376 MiB", "394 MB", "375.75 MiB"},
		{999_600_000, "1000 MB", "1 GB", "953 MiB", "1000 MB", "953.29 MiB"},
		{80e9, "80.0 GB", "80 GB", "74.5 GiB", "80.0 GB", "74.51 GiB"},
		{143_771e6, "143.8 GB", "143.8 GB", "133.9 GiB", "144 GB", "133.90 GiB"},
	} {
		require.Equal(t, []string{x.plain, x.short, x.gib, x.measured, x.torch, x.plain},
			[]string{Bytes(x.n), BytesShort(x.n), BytesIn(x.n, "GiB"), BytesMeasured(x.n), BytesOfTorch(x.n), BytesIn(x.n, "GB")}, x.n)
	}
}
