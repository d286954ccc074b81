package units

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Number of bytes in a GB and in a GiB.
const (
	GB  = 1e9
	GiB = 1 << 30
)

// SizeForms describes the texts that ParseSize accepts, for the "allowed" of an error.
const SizeForms = "a size such as 40GB, 24576MiB or 512MB; a number without a unit is GB, up to 4096"

const (
	maxBare   = 4096 // larger numbers need a unit, because nvidia-smi's MiB are larger
	leastSize = 1e6  // bytes; a smaller number needs a unit
	mostSize  = 1e15 // bytes
)

// ErrSize reports that a text is not a size.
var ErrSize = errors.New("not a size")

var sizeUnits = []struct {
	suffix string
	factor float64 // 0: the caller's gb
}{{"gib", GiB}, {"mib", 1 << 20}, {"gb", 0}, {"mb", 1e6}, {"g", 0}, {"m", 1e6}, {"b", 1}}

// ParseSize parses a memory size, in any case, with or without a blank before the unit: 40GB, 40GiB, 40000MB,
// 24576MiB. A number without a unit is GB up to 4096 and bytes from 10^6 on. ParseSize rejects numbers between
// these. gb is the number of bytes in a GB: GB, or GiB where the source of the text means GiB. The size must be
// from 1 MB to 1 PB. The error is ErrSize.
func ParseSize(text string, gb float64) (int64, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	number, factor := text, 0.0
	for _, u := range sizeUnits {
		if before, found := strings.CutSuffix(text, u.suffix); found {
			if number, factor = before, u.factor; factor == 0 {
				factor = gb
			}
			break
		}
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if factor == 0 {
		if factor = gb; value >= leastSize {
			factor = 1
		} else if value > maxBare {
			return 0, ErrSize
		}
	}
	if err != nil || strings.ContainsAny(number, "xp_") || !(value*factor >= leastSize && value*factor <= mostSize) {
		return 0, ErrSize
	}
	return int64(math.Round(value * factor)), nil
}
