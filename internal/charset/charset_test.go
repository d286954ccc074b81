package charset

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLocalesOfOtherCharacterSets(t *testing.T) {
	for environ, only := range map[string]bool{
		"": false, "LANG=C.UTF-8": false, "LANG=de_DE.utf8": false, "LANG=C": true, "LANG=de_DE.ISO-8859-1": true, "LC_ALL=POSIX LANG=C.UTF-8": true,
		"LC_ALL= LC_CTYPE=en_US.UTF-8 LANG=C": false,
	} {
		require.Equal(t, only, ASCIIOnly(strings.Fields(environ)), environ)
	}
}

func TestNoColor(t *testing.T) {
	for environ, none := range map[string]bool{"": false, "NO_COLOR=": false, "NO_COLOR=1": true, "NO_COLOR=1 NO_COLOR=": false} {
		require.Equal(t, none, NoColor(strings.Fields(environ)), environ)
	}
}

func TestTextInASCII(t *testing.T) {
	require.Equal(t, "???? and ? -", Cells("漢字 and ü –"))
	require.Equal(t, " .':", Cells("\u2800\u28c0\u2809\u28ff"))
	require.Equal(t, "done~ 3 > 4", Cells("done… 3 → 4"))
	require.Equal(t, "done... 3 -> 4, 2 x 3 - 1", Text("done… 3 → 4, 2 × 3 – 1"))
}

func TestTextInASCIIIsASCIIAndCellsKeepTheirWidth(t *testing.T) {
	signs := []rune("a·…–→←↑↓°×±█░▁▂▃▄▅▆▇─│┌é漢\u28ff")
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.SampledFrom(signs)).Draw(t, "text"))
		for _, plain := range []string{Cells(text), Text(text)} {
			require.True(t, Printable(plain), "%q", plain)
		}
		require.Equal(t, ansi.StringWidth(text), ansi.StringWidth(Cells(text)))
	})
}
