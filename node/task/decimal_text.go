package task

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
)

type decimalKind int

const (
	finite decimalKind = iota
	infinite
	notANumber
)

// decimalText is a number from an untrusted sender, kept as text. Its exponent may be far too large for arithmetic,
// but a comparison costs no more than reading it.
type decimalText struct {
	kind     decimalKind
	negative bool
	digits   string // ASCII, without leading zeros; "" is zero
	exponent int64  // of the last digit
}

// maxDecimalExponent is approximately the exponent that Python's decimal refuses.
const maxDecimalExponent = 1_000_000_000_000_000_000

// pyParseDecimal is Python's decimal.Decimal(s). It returns false where Python raises.
func pyParseDecimal(s string) (decimalText, bool) {
	text, ok := decimalASCII(pyStrip(s))
	if !ok {
		return decimalText{}, false
	}
	var d decimalText
	if text != "" && (text[0] == '+' || text[0] == '-') {
		d.negative, text = text[0] == '-', text[1:]
	}
	if d.kind, ok = specialDecimal(text); ok {
		return d, true
	}
	whole := countDigits(text)
	mantissa, rest := text[:whole], text[whole:]
	if strings.HasPrefix(rest, ".") {
		fraction := countDigits(rest[1:])
		mantissa, rest = mantissa+rest[1:1+fraction], rest[1+fraction:]
		d.exponent = -int64(fraction)
	}
	if mantissa == "" {
		return decimalText{}, false
	}
	d.digits = strings.TrimLeft(mantissa, "0")
	if rest == "" {
		return d, true
	}
	exponent, ok := parseExponent(rest)
	d.exponent += exponent
	return d, ok
}

// decimalASCII deletes underscores and converts the digits of all scripts to ASCII.
func decimalASCII(s string) (string, bool) {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == '_':
		case r < 0x80:
			b.WriteByte(byte(r))
		default:
			value, ok := pyDigit(r)
			if !ok {
				return "", false
			}
			b.WriteByte(byte('0' + value))
		}
	}
	return b.String(), true
}

func specialDecimal(text string) (decimalKind, bool) {
	if len(text) < len("inf") || text[0] >= '0' && text[0] <= '9' {
		return finite, false
	}
	letters := strings.ToLower(text[:len(text)-countTrailingDigits(text)])
	switch {
	case letters == "nan" || letters == "snan":
		return notANumber, true
	case len(letters) == len(text) && (letters == "inf" || letters == "infinity"):
		return infinite, true
	}
	return finite, false
}

// parseExponent reads e, an optional sign and digits, and nothing after them.
func parseExponent(text string) (int64, bool) {
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	text = text[1:]
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	if text == "" || countDigits(text) != len(text) {
		return 0, false
	}
	text = strings.TrimLeft(text, "0")
	if text == "" {
		return 0, true
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value > maxDecimalExponent {
		return 0, false
	}
	if negative {
		value = -value
	}
	return value, true
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func countTrailingDigits(s string) int {
	n := 0
	for n < len(s) && s[len(s)-1-n] >= '0' && s[len(s)-1-n] <= '9' {
		n++
	}
	return n
}

// compare returns -1, 0 or 1 if the finite a is below, equal to or above the finite b. It takes time linear in
// their lengths.
func (a decimalText) compare(b decimalText) int {
	signA, signB := a.sign(), b.sign()
	if signA != signB || signA == 0 {
		return cmp.Compare(signA, signB)
	}
	topA, topB := a.exponent+int64(len(a.digits)), b.exponent+int64(len(b.digits))
	switch {
	case topA > topB:
		return signA
	case topA < topB:
		return -signA
	}
	// The first digits have the same place value, so that the texts compare like fractions.
	return signA * strings.Compare(strings.TrimRight(a.digits, "0"), strings.TrimRight(b.digits, "0"))
}

func (a decimalText) sign() int {
	switch {
	case a.digits == "":
		return 0
	case a.negative:
		return -1
	}
	return 1
}

// text converts d to decimalText.
func (d decimal) text() decimalText {
	t := decimalText{negative: d.negative, exponent: int64(d.exponent)}
	if d.coefficient.Sign() != 0 {
		t.digits = d.coefficient.String()
	}
	return t
}

// number converts a finite a to a decimal, unless it has over 200 digits or an exponent beyond ±1000.
func (a decimalText) number() (decimal, bool) {
	if a.kind != finite || len(a.digits) > 200 || a.exponent > 1000 || a.exponent < -1000 {
		return decimal{}, false
	}
	coefficient := new(big.Int)
	if a.digits != "" {
		coefficient.SetString(a.digits, 10)
	}
	return decimal{a.negative, coefficient, int(a.exponent)}, true
}
