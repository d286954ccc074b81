package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// manyMarks is a number of combining marks in a row that norm.NFC leaves together for certain. It inserts a U+034F
// after 30 of them, as decomposed (Unicode's Stream-Safe Text Format), and a character decomposes to at most 4.
const manyMarks = 30 / 4

// nfc returns a text in Unicode's NFC. Unlike norm.NFC, it never inserts U+034F, as Hugging Face's library does not.
func nfc(text string) string {
	marks := 0
	for rest := text; rest != ""; {
		properties := norm.NFD.PropertiesString(rest)
		if marks++; properties.BoundaryBefore() {
			marks = 0
		}
		if marks > manyMarks {
			return composed(ordered(decomposed(text)))
		}
		rest = rest[max(1, properties.Size()):]
	}
	return norm.NFC.String(text)
}

// mark is one character, or one byte that is not UTF-8, with its canonical combining class.
type mark struct {
	text  string
	class uint8
}

func markOf(text string) mark { return mark{text, norm.NFD.PropertiesString(text).CCC()} }

// decomposed returns the characters of a text's canonical decomposition, not yet in canonical order.
func decomposed(text string) (marks []mark) {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError {
			marks = append(marks, mark{text: text[:size]})
		} else {
			for _, part := range norm.NFD.String(text[:size]) {
				marks = append(marks, markOf(string(part)))
			}
		}
		text = text[size:]
	}
	return marks
}

// ordered sorts each run of marks with a class above 0 by class.
func ordered(marks []mark) []mark {
	for start := 0; start < len(marks); start++ {
		end := start
		for end < len(marks) && marks[end].class > 0 {
			end++
		}
		slices.SortStableFunc(marks[start:end], func(a, b mark) int { return int(a.class) - int(b.class) })
		start = max(start, end)
	}
	return marks
}

// composed joins each starter with the marks after it that are not blocked and have a composite with it.
func composed(marks []mark) string {
	result, starter := make([]mark, 0, len(marks)), -1
	for _, m := range marks {
		if starter >= 0 && (starter == len(result)-1 || result[len(result)-1].class < m.class) {
			both := norm.NFC.String(result[starter].text + m.text)
			if utf8.RuneCountInString(both) == 1 {
				result[starter].text = both
				continue
			}
		}
		if result = append(result, m); m.class == 0 {
			starter = len(result) - 1
		}
	}
	var text strings.Builder
	for _, m := range result {
		text.WriteString(m.text)
	}
	return text.String()
}
