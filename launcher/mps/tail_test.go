package mps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each line counts once, wherever the calls fall: in the middle of a line, after a line longer than one call reads, and
// after the file was truncated.
func TestTail(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "server.log"), "fatal error"
	log := newTail(path)
	if log.tells([]byte(text)) {
		t.Fatal("a missing file has a line")
	}
	for _, step := range []struct {
		name, add string
		want      []bool // of successive calls
	}{
		{"a line", "a fatal error\n", []bool{true, false}},
		{"half of a line", "a fatal", []bool{false, false}},
		{"the other half", " error\n", []bool{true, false}},
		{"other lines", "well\nwell\n", []bool{false}},
		{"many lines before", strings.Repeat("well\n", tailBytes/5+9) + text + "\n", []bool{false, true, false}},
		{"a long line before", strings.Repeat("x", 3*tailBytes) + "\n" + text + "\n", []bool{false, false, false, true, false}},
		{"at the end of a part", strings.Repeat("x", tailBytes-len(text)) + text, []bool{true, false}},
		{"across the end of a part", strings.Repeat("x", 2*tailBytes-25) + text + strings.Repeat("x", tailBytes) + "\n", []bool{false, false, true, false}},
	} {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.add); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		for i, want := range step.want {
			if got := log.tells([]byte(text)); got != want {
				t.Fatalf("%s: call %d finds the text: %t", step.name, i, got)
			}
		}
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !log.tells([]byte(text)) {
		t.Fatal("a truncated file is not read from its start")
	}
}
