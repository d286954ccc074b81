package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestIDsOfAPeer compares Encode with the ids of another library. SWARM_TEST_TOKENIZER names a folder with
// tokenizer.json and SWARM_TEST_TOKENIZER_IDS a JSON file with texts and their ids, which `make smollm2` writes.
func TestIDsOfAPeer(t *testing.T) {
	path := os.Getenv("SWARM_TEST_TOKENIZER_IDS")
	if path == "" {
		t.Skip("SWARM_TEST_TOKENIZER_IDS names no file with a peer's ids")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var peer struct {
		Texts []string
		IDs   [][]int
	}
	if err := json.Unmarshal(data, &peer); err != nil {
		t.Fatal(err)
	}
	if len(peer.Texts) == 0 || len(peer.IDs) != len(peer.Texts) {
		t.Fatalf("%d texts and %d lists of ids", len(peer.Texts), len(peer.IDs))
	}
	tok := mustOpen(t, NameHuggingFace, os.Getenv("SWARM_TEST_TOKENIZER"))
	for i, text := range peer.Texts {
		if got := tok.Encode(text); !slices.Equal(got, peer.IDs[i]) {
			t.Errorf("Encode(%q) = %v, the peer's ids are %v", text, got, peer.IDs[i])
		}
	}
	t.Logf("%d texts have equal ids", len(peer.Texts))
}
