package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const architecturePage = "../../docs/ARCHITECTURE.md"

var (
	inCode    = regexp.MustCompile("`([^`\n]+)`")
	pathInDoc = regexp.MustCompile(`^(?:cmd|configs|internal|launcher|metrics|node)/[A-Za-z0-9_./{},-]*$`)
	inBraces  = regexp.MustCompile(`^(.*)\{([^}]*)\}(.*)$`)
)

// pathsOf returns the paths of the tree that a text contains in code font. launcher/{gpu,fit} counts as two.
func pathsOf(text string) (paths []string) {
	for _, m := range inCode.FindAllStringSubmatch(text, -1) {
		switch braces := inBraces.FindStringSubmatch(m[1]); {
		case !pathInDoc.MatchString(m[1]) && m[1] != "configs" && m[1] != "node":
		case braces == nil:
			paths = append(paths, m[1])
		default:
			for part := range strings.SplitSeq(braces[2], ",") {
				paths = append(paths, braces[1]+part+braces[3])
			}
		}
	}
	return paths
}

// TestArchitectureNamesWhatIsThere: every path on the page exists, and the page lists every package.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	page, err := os.ReadFile(architecturePage)
	require.NoError(t, err)
	named := pathsOf(string(page))
	require.Greater(t, len(named), 80)
	for _, path := range named {
		_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(path)))
		require.NoError(t, err, "docs/ARCHITECTURE.md names %s", path)
	}
	out, err := exec.Command("go", "list", modulePath+"...").Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		if path = strings.TrimPrefix(path, modulePath); !slices.Contains(named, path) {
			t.Errorf("docs/ARCHITECTURE.md does not name the package %s", path)
		}
	}
}

// TestDependenciesHaveAReason: the page's tables list each direct dependency as used, and no others.
func TestDependenciesHaveAReason(t *testing.T) {
	page, err := os.ReadFile(architecturePage)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Dependencies\n")
	require.True(t, found)
	taken, refused, found := strings.Cut(section, "\nConsidered and rejected:\n")
	require.True(t, found)
	refused, _, _ = strings.Cut(refused, "\n## ")
	first := func(text string) (names []string) {
		for line := range strings.Lines(text) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for _, m := range inCode.FindAllStringSubmatch(cells[1], -1) {
					names = append(names, m[1])
				}
			}
		}
		return names
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all").Output()
	require.NoError(t, err)
	direct := strings.Fields(string(out))
	require.ElementsMatch(t, direct, first(taken))
	require.NotEmpty(t, first(refused))
	for _, name := range first(refused) {
		require.NotContains(t, direct, name)
	}
}
