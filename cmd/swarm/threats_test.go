package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests in the table of threats exist.
func TestThreatsNameTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "WORKERS.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Threats\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n### ")
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(table, -1) {
		missing["func "+name[1]+"("] = true
	}
	require.Greater(t, len(missing), 15)
	for _, folder := range []string{"cmd", "launcher", "node"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			for name := range missing {
				if strings.Contains(string(code), "\n"+name) {
					delete(missing, name)
				}
			}
			return err
		}))
	}
	require.Empty(t, missing)
}
