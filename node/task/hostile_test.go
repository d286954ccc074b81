package task

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// No long answer may block a verifier. These texts take a few milliseconds. Quadratic cost would take far longer
// than the bound, which has slack for the race detector on a busy machine.
func TestVerifiersAreFastOnHostileText(t *testing.T) {
	const size, bound = 256 << 10, 2 * time.Second
	texts := []string{"\x00", "\xff", "(", ")", "[", "[[", "[]", "[],", "(0),", "[0,", "'", "''", "'',", "'0'\n", "-", "+-", "~", "¬",
		"0", "0_", "9", "0,", "1 ", "0x", "#", "#\n", "\n", "\n ", "\f", " ", "\\", "/", "1/", "1.", "e9", "1e999999999", "P ∧ ",
		"P→", "(P", "a1∨", "\\frac{", "$", "é", "𝟛", "Monday "}
	for _, name := range Names() {
		task, err := New(name, nil)
		require.NoError(t, err)
		item := goldenItems(t, name)[0]
		for _, text := range texts {
			answers := []string{strings.Repeat(text, size/len(text)), "[" + strings.Repeat(text, size/len(text)) + "]"}
			for _, answer := range answers {
				start := time.Now()
				score := task.Score(item, &answer)
				took := time.Since(start)
				if took > bound {
					t.Errorf("%s: %d bytes of %q took %v", name, len(answer), text, took)
				}
				require.True(t, score >= 0 && score <= 1, "%s: %q scores %v", name, text, score)
			}
		}
	}
}
