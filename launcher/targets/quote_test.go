package targets

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/internal/shell"
)

// hostileWords run a command, or end a line or a quote, if they are not quoted.
func hostileWords(t *testing.T) (words []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &words))
	require.NotEmpty(t, words)
	return words
}

// anyText generates hostile text and any other text that a process can get as an argument.
func anyText(hostile []string) *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(hostile), rapid.String(), rapid.Map(rapid.SliceOf(rapid.SampledFrom(hostile)), func(list []string) string {
		return strings.Join(list, "")
	})).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
}

// Bash reads a quoted word back unchanged, on one line, and runs nothing.
func TestBashReadsQuotedWordsAsTheyWere(t *testing.T) {
	dir, hostile := t.TempDir(), hostileWords(t)
	check := func(t require.TestingT, words []string) {
		line := shell.Line(words...)
		require.False(t, strings.ContainsAny(line, "\n\r\u0085\u2028\u2029"), "%q", line)
		cmd := exec.Command("bash", "-c", `printf '%s\0' `+line)
		cmd.Dir = dir
		cmd.Env = []string{"LC_ALL=C", "HOME=/nobody", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, strings.Join(words, "\x00")+"\x00", string(out))
	}
	check(t, hostile)
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.SliceOfN(anyText(hostile), 1, 20).Draw(t, "words")) })
	require.NoFileExists(t, filepath.Join(dir, "pwned"))
}

func TestYAMLReadsQuotedTextAsItWas(t *testing.T) {
	hostile := hostileWords(t)
	check := func(t require.TestingT, text string) {
		var got map[string]string
		require.NoError(t, yaml.Unmarshal([]byte("key: "+yamlText(text)+"\n"), &got))
		require.Equal(t, text, got["key"])
	}
	for _, text := range hostile {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, anyText(hostile).Draw(t, "text")) })
}

func TestACommentStaysOnItsLine(t *testing.T) {
	hostile := hostileWords(t)
	rapid.Check(t, func(t *rapid.T) {
		require.False(t, strings.ContainsAny(comment(anyText(hostile).Draw(t, "text")), "\n\r\u0085\u2028\u2029"))
	})
}
