package shortage

import (
	"math"
	"strconv"
	"strings"
)

// number and size are the pattern parts for "17.66 GiB", "0 bytes", "2.99GiB" and "8,000,000,000 bytes".
const (
	number = `[0-9][0-9.,]*`
	size   = number + ` ?[A-Za-z]+`
)

// binary are the units of programs that divide by 1024.
var binary = map[string]float64{"": 1, "b": 1, "byte": 1, "bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

// decimal are the units that mean a power of ten by default.
var decimal = map[string]float64{"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}

// parseSize returns a size as programs print it, in bytes. It returns 0 if the text is not a size or is larger than
// any memory.
func parseSize(text string) int64 {
	return parse(text, decimal)
}

// parseBinary is parseSize for programs with "GB" and "G" of 1024³ bytes: TensorFlow, Ray, PyTorch on MPS, the
// kernel.
func parseBinary(text string) int64 {
	return parse(text, map[string]float64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
		"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40})
}

func parse(text string, more map[string]float64) int64 {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.,") + 1
	unit := strings.ToLower(strings.TrimSpace(text[end:]))
	factor, known := binary[unit]
	if !known {
		factor, known = more[unit]
	}
	n, err := strconv.ParseFloat(strings.TrimRight(strings.ReplaceAll(text[:end], ",", ""), "."), 64)
	if err != nil || !known {
		return 0
	}
	bytes := n * factor
	if math.IsNaN(bytes) || bytes < 0 || bytes >= 1<<60 {
		return 0
	}
	return int64(math.Round(bytes))
}

// elementBytes is the element size of TensorFlow's types, by their printed names.
var elementBytes = map[string]int64{
	"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int64": 8, "int16": 2, "int8": 1, "uint8": 1, "uint16": 2,
	"uint32": 4, "uint64": 8, "bool": 1, "complex64": 8, "complex128": 16,
}

// tensorBytes returns the size of a tensor with shape "128,3,8"; 0: unknown.
func tensorBytes(shape, element string) int64 {
	bytes := elementBytes[element]
	for dimension := range strings.SplitSeq(shape, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(dimension), 10, 64)
		if err != nil || n < 0 || (n > 0 && bytes > (1<<60)/n) {
			return 0
		}
		bytes *= n
	}
	return bytes
}
