package neutral

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathsAreCutAndNothingElse(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"gpt2":                           "gpt2",
		"Qwen/Qwen2.5-0.5B-Instruct":     "Qwen/Qwen2.5-0.5B-Instruct",
		"4/4 against 8/0, $1.29/h":       "4/4 against 8/0, $1.29/h",
		"I / J":                          "I / J",
		"https://hub.example/a/b/c":      "https://hub.example/a/b/c",
		"/home/a/x=4,/srv/models/y=4":    "x=4,y=4",
		"read /proc/self/stat: bad":      "read stat: bad",
		"~/models/nano":                  "nano",
		"/mnt/home/alice/models/nano":    "nano",
		"fork/exec /usr/bin/python3: no": "fork/exec python3: no",
	} {
		require.Equal(t, want, WithoutFolders(text))
	}
}
