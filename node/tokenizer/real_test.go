package tokenizer

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRealQwenIDs needs SWARM_TEST_QWEN, a folder with Qwen2.5's own tokenizer.json. The expected ids are those of
// Hugging Face's tokenizer, as recorded in llama.cpp's test vectors (models/ggml-vocab-qwen2.gguf.out).
func TestRealQwenIDs(t *testing.T) {
	dir := os.Getenv("SWARM_TEST_QWEN")
	if dir == "" {
		t.Skip("SWARM_TEST_QWEN names no folder")
	}
	tok := mustOpen(t, NameHuggingFace, dir)
	if tok.EOS() != 151645 || tok.VocabSize() > 151936 {
		t.Errorf("EOS %d, %d tokens", tok.EOS(), tok.VocabSize())
	}
	for text, want := range map[string][]int{
		"ied 4 ½ months":         {1122, 220, 19, 220, 26062, 3951},
		"Führer":                 {37, 50753, 261},
		"\n\n\n":                 {1406},
		"\t\n":                   {1572},
		"Hello world":            {9707, 1879},
		" Hello, world!":         {21927, 11, 1879, 0},
		" this is 🦙.cpp":         {419, 374, 11162, 99, 247, 13, 10821},
		"w048 7tuijk dsdfhu":     {86, 15, 19, 23, 220, 22, 83, 1963, 41808, 11472, 2940, 16739},
		"нещо на Български":      {78762, 14144, 1456, 13073, 63471, 33594, 3038, 133178, 79012},
		"    Hello\n    Hello":   {262, 21927, 198, 262, 21927},
		"\n =":                   {198, 284},
		"' era":                  {6, 11385},
		"Hello, y'all! How are":  {9707, 11, 379, 64848, 0, 2585, 525},
		"333":                    {18, 18, 18},
		"3 33 3.3 3..3 3...3":    {18, 220, 18, 18, 220, 18, 13, 18, 220, 18, 496, 18, 220, 18, 1112, 18},
		" 'RE you sure? 'M not":  {364, 787, 498, 2704, 30, 364, 44, 537},
		"我想在apple工作1314151天～":    {104100, 18493, 22377, 99257, 16, 18, 16, 19, 16, 20, 16, 35727, 21216},
		" We'Ve a'lL":            {1205, 6, 42612, 264, 63866, 43},
		strings.Repeat("3", 100): slices.Repeat([]int{18}, 100),
	} {
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("Encode(%q) = %v, want %v", text, got, want)
		}
	}
}
