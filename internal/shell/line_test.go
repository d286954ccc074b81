package shell

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	for want, words := range map[string][]string{
		"swarm up 4loc4ext --rounds=5":                 {"swarm", "up", "4loc4ext", "--rounds=5"},
		`swarm up --on-complete 'echo $HOME; it'\''s'`: {"swarm", "up", "--on-complete", "echo $HOME; it's"},
		"--name='a b' '' '~/x' '{a,b}'":                {"--name=a b", "", "~/x", "{a,b}"},
		`$'a\nb\x1b[31m\'\\'`:                          {"a\nb\x1b[31m'\\"},
	} {
		require.Equal(t, want, Line(words...))
	}
}

// Bash reads back the words that Line quoted.
func TestBashReadsALineBack(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }), 1, 4).Draw(t, "words")
		words = append(words, string(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 8).Draw(t, "bytes")))
		out, err := exec.Command(bash, "-c", `printf '%s\0' `+Line(words...)).Output()
		if err != nil || string(out) != strings.Join(words, "\x00")+"\x00" {
			t.Fatalf("%q: %v %q", words, err, out)
		}
	})
}

func TestQuoteQuotesWhatNeedsIt(t *testing.T) {
	for word, want := range map[string]string{
		"a/b": "a/b", "it's": `'it'\''s'`, "": "''", "--rounds=3": "--rounds=3", "--price=$2/h": "--price='$2/h'", "\xff\u2028": `$'\xff\xe2\x80\xa8'`,
	} {
		require.Equal(t, want, Quote(word))
	}
}
