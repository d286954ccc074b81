package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packageFolder returns the folder of a package of SWARM_TEST_TRANSFORMERS. It skips the test if there is none.
func packageFolder(t *testing.T, name string) string {
	t.Helper()
	find := "import importlib.util, sys; found = importlib.util.find_spec(sys.argv[1]); print(*(found.submodule_search_locations if found else []))"
	out, err := exec.Command(transformersPython(t), "-c", find, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := strings.TrimSpace(string(out))
	if folder == "" {
		t.Skip("the Python has no " + name)
	}
	return folder
}

// qwenRanks reads Qwen's own vocabulary from the package dashscope, the client of Qwen's makers.
func qwenRanks(t *testing.T) map[string]int {
	t.Helper()
	folder := packageFolder(t, "dashscope")
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

// TestRealTemplates compares prompts with the models' own chat templates, which TRL contains. The vocabularies are
// those of families.
func TestRealTemplates(t *testing.T) {
	folder := filepath.Join(packageFolder(t, "trl"), "chat_templates")
	names := []string{"llama3", "llama3_1", "llama3_2", "qwen2_5", "qwen3", "qwen3_instruct_2507"}
	like := map[string]string{"llama3": "Llama 3", "llama3_1": "Llama 3.2", "llama3_2": "Llama 3.2", "qwen2_5": "Qwen2.5", "qwen3": "Qwen3", "qwen3_instruct_2507": "Qwen3"}
	var pairs []*pairing
	for _, name := range names {
		f := families[like[name]]
		template, err := os.ReadFile(filepath.Join(folder, name+".jinja"))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this TRL has no " + name + ".jinja")
		}
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, newPairing(t, writeTemplate(t, f, string(template)), f.options, nil))
	}
	comparePairs(t, names, pairs)
}
