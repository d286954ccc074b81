package tokenizer

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// qwenRanks reads Qwen's own vocabulary from the package dashscope of SWARM_TEST_TRANSFORMERS, the client of Qwen's
// makers.
func qwenRanks(t *testing.T) map[string]int {
	t.Helper()
	find := "import importlib.util; found = importlib.util.find_spec('dashscope'); print(*(found.submodule_search_locations if found else []))"
	out, err := exec.Command(transformersPython(t), "-c", find).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := strings.TrimSpace(string(out))
	if folder == "" {
		t.Skip("the Python has no dashscope, which contains Qwen's vocabulary")
	}
	data, err := os.ReadFile(filepath.Join(folder, "resources", "qwen.tiktoken"))
	if err != nil {
		t.Fatal(err)
	}
	ranks := map[string]int{}
	for line := range strings.Lines(string(data)) {
		encoded, rank, _ := strings.Cut(strings.TrimSpace(line), " ")
		token, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil {
			ranks[string(token)], err = strconv.Atoi(rank)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ranks
}

// TestRealQwenIDs converts Qwen's vocabulary to a tokenizer.json as Qwen2 has it. The expected ids are those of Hugging
// Face's tokenizer, as recorded in llama.cpp's test vectors (models/ggml-vocab-qwen2.gguf.out).
func TestRealQwenIDs(t *testing.T) {
	ranks := qwenRanks(t)
	f := families["Qwen2.5"]
	f.write = func(t testing.TB) string {
		dir := t.TempDir()
		writeJSON(t, dir, File, document(t, ranks, true))
		writeJSON(t, dir, "config.json", fmt.Sprintf(`{"model_type":"qwen2","eos_token_id":%d}`, len(ranks)+2))
		return dir
	}
	dir := writeFamily(t, f)
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
	comparePairs(t, []string{"transformers"}, []*pairing{newPairing(t, dir, nil, append(corpus(), everyRune()...))})
}
