package units

import (
	"fmt"
	"math"
	"strconv"
)

// Bytes formats a size in decimal units as the guides do (1 GB = 10^9 bytes): 12 kB, 394 MB, 25.8 GB.
func Bytes(n int64) string {
	switch {
	case 0 < n && n < 1e6:
		return fmt.Sprintf("%.0f kB", max(1, float64(n)/1e3))
	case n < GB:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/GB)
}

// BytesShort is Bytes without a zero decimal and without kB: 80 GB, 79.6 GB, 1 GB.
func BytesShort(n int64) string {
	if n < 999_500_000 {
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return strconv.FormatFloat(math.Round(float64(n)/1e8)/10, 'f', -1, 64) + " GB"
}

// BytesIn formats a size in MiB and GiB if unit is GiB (394 MiB, 25.8 GiB), else as Bytes.
func BytesIn(n int64, unit string) string {
	switch {
	case unit != "GiB":
		return Bytes(n)
	case n < GiB:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/GiB)
}

// BytesMeasured is Bytes for a measurement in a narrow column. It returns – if n is 0 or negative, which means not
// measured. From 100 GB on it omits decimals.
func BytesMeasured(n int64) string {
	switch {
	case n <= 0:
		return "–"
	case n < 100*GB:
		return Bytes(n)
	}
	return fmt.Sprintf("%.0f GB", float64(n)/GB)
}

// BytesOfTorch formats a size as PyTorch's messages do, so that readers find the figure in the log: 17.66 GiB,
// 512.00 MiB, 12 bytes.
func BytesOfTorch(n int64) string {
	switch {
	case n >= GiB:
		return fmt.Sprintf("%.2f GiB", float64(n)/GiB)
	case n >= 1<<20:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
