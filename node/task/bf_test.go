package task

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// libraryWords is the library's word list, which is next to the repository on some machines only.
const libraryWords = "../../../shared/reasoning-gym/wordle_words.txt"

type bfMetadata struct {
	Code    string `json:"bfit_code"`
	Program string `json:"bf_program"`
}

func TestBFGoldenPrograms(t *testing.T) {
	for i, item := range goldenItems(t, "bf") {
		var meta bfMetadata
		require.NoError(t, json.Unmarshal(item.Metadata, &meta))
		require.Equal(t, meta.Program, bfProgram(*item.Answer), "item %d", i)
		require.Equal(t, meta.Code, bfitCode(*item.Answer), "item %d", i)
	}
	testGoldenScores(t, defaultTask(t, defaultBF(), newBF), 0)
}

func TestBFGoldenItems(t *testing.T) {
	words, err := os.ReadFile(libraryWords)
	if err != nil {
		t.Skip("the library's word list is not here")
	}
	testGoldenItems(t, defaultTask(t, bfParams{Difficulty: 1, Words: strings.Fields(string(words))}, newBF))
}

func TestBFProgramsPrintTheirWord(t *testing.T) {
	task := defaultTask(t, defaultBF(), newBF)
	for i := range int64(300) {
		item := task.Item(7, i)
		var meta bfMetadata
		require.NoError(t, json.Unmarshal(item.Metadata, &meta))
		require.Contains(t, item.Question, meta.Program)
		require.Equal(t, *item.Answer, runBF(t, meta.Program))
	}
	for _, word := range []string{"a", "zA0z", "0123456789", strings.Repeat("Zz", 32)} {
		require.Equal(t, word, runBF(t, bfProgram(word)))
	}
}

// runBF is a plain interpreter with cells of 8 bits.
func runBF(t *testing.T, program string) string {
	t.Helper()
	var out strings.Builder
	tape, at := make([]byte, 8), 0
	for pc, steps := 0, 0; pc < len(program); pc, steps = pc+1, steps+1 {
		require.Less(t, steps, 100_000)
		switch program[pc] {
		case '>':
			at++
		case '<':
			at--
		case '+':
			tape[at]++
		case '-':
			tape[at]--
		case '.':
			out.WriteByte(tape[at])
		case '[':
			if tape[at] == 0 {
				pc += strings.IndexByte(program[pc:], ']') // loops are not nested
			}
		case ']':
			if tape[at] != 0 {
				pc = strings.LastIndexByte(program[:pc], '[')
			}
		}
	}
	return out.String()
}

func TestBFDefaultWords(t *testing.T) {
	words := defaultBF().Words
	require.GreaterOrEqual(t, len(words), 1000)
	require.True(t, slices.IsSorted(words))
	require.Len(t, slices.Compact(slices.Clone(words)), len(words), "words are unique")
	for _, word := range words {
		require.Len(t, word, 5)
		require.Equal(t, strings.ToLower(word), word)
	}
}

func FuzzScoreBF(f *testing.F) { fuzzScore(f, defaultTask(f, defaultBF(), newBF)) }
