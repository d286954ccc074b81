package task

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestPyStrip(t *testing.T) {
	space := "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000"
	require.Equal(t, "a b", pyStrip(space+"a b"+space))
	require.Empty(t, pyStrip(space))
	for _, s := range []string{"\u200b", "\ufeff", "\x00", "\x1b", "\u180e", "\xff", "\x85"} {
		require.Equal(t, s, pyStrip(" "+s+" "), "%q is no white space", s)
	}
}

func TestPyDigit(t *testing.T) {
	for _, c := range []struct {
		r     rune
		value int
	}{{'0', 0}, {'9', 9}, {'٣', 3}, {'３', 3}, {'𝟛', 3}, {'𝟿', 9}, {'९', 9}, {0x1fbf9, 9}} {
		value, ok := pyDigit(c.r)
		require.True(t, ok, "%c", c.r)
		require.Equal(t, c.value, value, "%c", c.r)
	}
	for _, r := range "²½Ⅷ③a/: \u0660-" {
		if _, ok := pyDigit(r); ok != (r == '\u0660') {
			t.Errorf("%q: digit %v", r, ok)
		}
	}
	// Unicode 14 has 660 digits. If a newer table in Go has more, exclude its additions.
	digits := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if value, ok := pyDigit(r); ok {
			digits++
			previous, _ := pyDigit(r - 1)
			require.True(t, value == 0 || value == previous+1, "%U", r)
		}
	}
	require.Equal(t, 660, digits)
	for _, r := range []rune{0x11f50, 0x1e4f9, -1, unicode.MaxRune + 1} {
		_, ok := pyDigit(r)
		require.False(t, ok, "%U", r)
	}
}

func TestPyParseInt(t *testing.T) {
	limit := strings.Repeat("0", pyMaxDigits-1)
	for _, c := range []struct{ text, want string }{
		{"0", "0"}, {" +1 ", "1"}, {"-0", "0"}, {"007", "7"}, {"1_0_0", "100"}, {"\u3000-３４\x1f", "-34"},
		{"123456789012345678901234567890", "123456789012345678901234567890"},
		{"-" + limit + "7", "-7"}, {strings.Repeat("0_", pyMaxDigits-1) + "7", "7"},
	} {
		got, ok := pyParseInt(c.text)
		require.True(t, ok, "%.20q", c.text)
		require.Equal(t, c.want, got.String())
	}
	for _, text := range []string{
		"", " ", "+", "--1", "+ 1", "_1", "1_", "1__0", "-_1", "1.0", "1e3", "0x1f", "1 0", "²", "1\x00", "\xff", "1\xff",
		limit + "77", strings.Repeat("9", 1<<20),
	} {
		_, ok := pyParseInt(text)
		require.False(t, ok, "%.20q", text)
	}
}

func TestPyLen(t *testing.T) {
	require.Equal(t, 4, pyLen("a∧𝟛é"))
	require.Equal(t, 2, pyLen("\xff\xfe"))
}
