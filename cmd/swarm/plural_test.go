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

// bareCount matches a number with a plural noun, which would print "1 nodes".
var bareCount = regexp.MustCompile(`"[^"]*%d (nodes|runs|rounds|workers|cores|attempts|restarts|node-rounds)\b[^"]*"`)

// TestCountsAgreeWithTheirNouns: internal/units formats counts. Limits, which are always plural, are exempt.
func TestCountsAgreeWithTheirNouns(t *testing.T) {
	several := []string{"more than %d", "at most %d", "up to %d", "1 to %d", "of %d", "and %d", "others of %d", "%d runs are running", "%d to %d",
		"%d nodes on GPU"}
	for _, folder := range []string{"cmd", "launcher", "node", "metrics/terminal", "metrics/stats", "metrics/report", "configs"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range bareCount.FindAllString(string(text), -1) {
				plain := found
				for _, s := range several {
					plain = strings.ReplaceAll(plain, s, "")
				}
				if bareCount.MatchString(plain) {
					t.Errorf("%s: %s: use units.Plural", path, found)
				}
			}
			return err
		}))
	}
}
