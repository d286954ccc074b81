package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Maximum lines of a package, without its tests. A larger package should be split.
const (
	mostLines        = 5500
	mostCommandLines = 6500 // of cmd/swarm
)

func TestPackagesAreSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{.Dir}}|{{join .GoFiles " "}} {{join .CgoFiles " "}} {{join .IgnoredGoFiles " "}}`, modulePath+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		path, rest, _ := strings.Cut(strings.TrimSpace(line), "|")
		dir, files, _ := strings.Cut(rest, "|")
		lines, most := 0, mostLines
		for _, name := range strings.Fields(files) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(data, []byte("\n"))
		}
		packages++
		if path == modulePath+"cmd/swarm" {
			most = mostCommandLines
		}
		if lines > most {
			t.Errorf("%s has %d lines, of at most %d: move what is a noun of its own to a package of its own", path, lines, most)
		}
	}
	if packages < 50 {
		t.Errorf("%d packages were looked at", packages)
	}
}
