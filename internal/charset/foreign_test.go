package charset

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// hostile is text with which a model could try to control the terminal.
const hostile = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2J\u009b2J\r\n\ttab\u202eevil\u2028x\x00漢字\x1bPq\x1b\\end\xff"

func TestShownKeepsTabs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "red\tand \uFFFD", Shown("\x1b[31mred\x1b[0m\tand \x07"))
}

func TestMarkedHidesNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\uFFFD[2J\uFFFDevil\uFFFD 漢", Marked("\x1b[2J\u202eevil\t 漢"))
}

func TestLineIsOnePrintableLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "fp16 may overflow", Line("fp16 may overflow"))
	require.Equal(t, "naïve 漢字 ✓", Line("naïve 漢字 ✓"))
	require.Equal(t, "red  plain", Line("\x1b[31mred\x1b[0m\t\nplain"))
	require.Equal(t, []string{"a", " b", ""}, Lines("a\r\n\tb\n"))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Just(strings.Repeat(hostile, 100))).Draw(t, "text")
		got := Line(text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), maxLine+len("…"))
		for _, r := range got {
			require.True(t, !unicode.IsControl(r) && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp), "%q in %q", r, got)
		}
		require.Equal(t, got, Line(got))
	})
}
