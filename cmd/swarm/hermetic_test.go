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

// readsEnvironment matches code that depends on the user's variables or home.
var readsEnvironment = regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|UserHomeDir|UserCacheDir|UserConfigDir)[(),]`)

// A package whose code reads the environment or the user's home runs its tests with hermetic.Main. Otherwise a test
// may depend on the settings, the models and the runs of the user who runs it.
func TestPackagesThatReadTheEnvironmentAreTestedWithoutTheUsers(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"internal/hermetic": "its tests call Enter",
		"internal/powercut": "it passes its own variable on",
		"internal/screen":   "its tests pass the variables",
	}
	root, checked := filepath.Join("..", ".."), 0
	require.NoError(t, filepath.WalkDir(root, func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, folder)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, ".") && name != "." || entry.Name() == "testdata" {
			return fs.SkipDir
		}
		reads, tests, hermetic := false, false, false
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return err
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, "_test.go") {
				tests = true
				hermetic = hermetic || strings.Contains(string(text), "hermetic.Main(")
			} else {
				reads = reads || readsEnvironment.Match(text)
			}
		}
		if reads && tests {
			checked++
			_, excepted := without[filepath.ToSlash(name)]
			require.NotEqual(t, hermetic, excepted, "%s: hermetic.Main in TestMain: %t", name, hermetic)
		}
		return nil
	}))
	require.Greater(t, checked, 15)
}
