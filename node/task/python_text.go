package task

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pyMaxDigits is CPython's default limit on the digits of an integer's text (sys.set_int_max_str_digits).
const pyMaxDigits = 4300

// pyIsSpace reports whether Python's str.strip removes r.
func pyIsSpace(r rune) bool {
	switch {
	case r <= 0x20:
		return r >= 0x09 && r <= 0x0d || r >= 0x1c && r <= 0x20
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	case r >= 0x2000 && r <= 0x200a:
		return true
	}
	switch r {
	case 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000:
		return true
	}
	return false
}

// pyStrip is Python's str.strip() without arguments.
func pyStrip(s string) string { return strings.TrimFunc(s, pyIsSpace) }

// pyDigit is the decimal value of a character of category Nd in Unicode 14, the version of Python 3.11. Every block
// of Nd starts with its zero and holds a multiple of ten characters.
func pyDigit(r rune) (int, bool) {
	if r < 0x80 {
		return int(r - '0'), r >= '0' && r <= '9'
	}
	if r >= 0x11f50 && r <= 0x11f59 || r >= 0x1e4f0 && r <= 0x1e4f9 { // Kawi and Nag Mundari: Unicode 15
		return 0, false
	}
	for _, block := range unicode.Nd.R16 {
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return int(r-rune(block.Lo)) % 10, true
		}
	}
	for _, block := range unicode.Nd.R32 {
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return int(r-rune(block.Lo)) % 10, true
		}
	}
	return 0, false
}

// pyParseInt is Python's int(s): digits of any script, single underscores between digits, one sign, and white space
// around them. It returns false where Python raises ValueError, also above 4300 digits.
func pyParseInt(s string) (*big.Int, bool) {
	s = pyStrip(s)
	ascii := make([]byte, 0, min(len(s), pyMaxDigits+1))
	if s != "" && (s[0] == '+' || s[0] == '-') {
		ascii, s = append(ascii, s[0]), s[1:]
	}
	digits, afterDigit := 0, false
	for _, r := range s {
		if r == '_' && afterDigit {
			afterDigit = false
			continue
		}
		value, ok := pyDigit(r)
		if !ok || digits == pyMaxDigits {
			return nil, false
		}
		ascii = append(ascii, byte('0'+value))
		digits, afterDigit = digits+1, true
	}
	if !afterDigit {
		return nil, false
	}
	return new(big.Int).SetString(string(ascii), 10)
}

// pyLen is Python's len(s): the number of code points. An invalid UTF-8 byte counts as one.
func pyLen(s string) int { return utf8.RuneCountInString(s) }
