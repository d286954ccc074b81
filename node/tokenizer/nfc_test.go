package tokenizer

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// The slow path must agree with norm.NFC for texts without many marks.
func TestCompositionAgreesWithTheLibrary(t *testing.T) {
	parts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"a", "e\u0301", "s\u0323\u0307", "q\u0307\u0323", "\u1e63\u0307", "\u00f4\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\u0344", "\u212b",
		"\u09c7\u09be", "\u0301", "\u0345", "\u05b0\u05bc", "\xff", "\xe2\x82", " ", "\u11099\U000110ba",
	}))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 0, 8).Draw(t, "text"), "")
		want := norm.NFC.String(text)
		if strings.Contains(want, "\u034f") {
			t.Skip("many marks")
		}
		if got := composed(ordered(decomposed(text))); got != want {
			t.Fatalf("%+q: %+q, want %+q", text, got, want)
		}
		if got := nfc(text); got != want {
			t.Fatalf("%+q: %+q, want %+q", text, got, want)
		}
	})
}

func TestManyMarksStayTogether(t *testing.T) {
	const dots, accents = "\u0323", "\u0301"
	for text, want := range map[string]string{
		"e" + strings.Repeat(accents, 40):                    "\u00e9" + strings.Repeat(accents, 39),
		"s" + strings.Repeat(accents+dots, 40) + "x":         "\u1e63" + strings.Repeat(dots, 39) + strings.Repeat(accents, 40) + "x",
		strings.Repeat(accents, 40):                          strings.Repeat(accents, 40),
		"\xff" + strings.Repeat(accents, 40) + "\xfe\u0301a": "\xff" + strings.Repeat(accents, 40) + "\xfe\u0301a",
		strings.Repeat("\u0344", 20):                         strings.Repeat("\u0308\u0301", 20),
	} {
		if got := nfc(text); got != want {
			t.Errorf("%+q: %+q, want %+q", text, got, want)
		}
	}
}
