package notify

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// Hooks can also come from files, which other users must not be able to read.
func TestHooksAreReadFromFilesOfTheirOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	webhook, command := write("webhook", "https://example.org/s3cret\n", 0o600), write("command", "echo one\necho two\n", 0o600)
	h := Hooks{WebhookFile: webhook, CommandFile: command}
	require.NoError(t, h.Check())
	require.Equal(t, []string{"https://example.org/s3cret", "echo one\necho two"}, []string{h.Webhook, h.Command})
	for name, bad := range map[string]Hooks{
		"others read it": {WebhookFile: write("public", "https://example.org/s3cret", 0o644)},
		"empty":          {CommandFile: write("empty", " \n", 0o600)},
		"none":           {WebhookFile: filepath.Join(dir, "none")},
		"twice":          {WebhookFile: webhook, Webhook: "https://example.org/"},
	} {
		var usage *fail.UsageError
		err := bad.Check()
		require.ErrorAs(t, err, &usage, name)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// Other users can read a process's arguments, so the shell that runs --on-complete does not get the command there.
func TestACommandIsNotInItsShellsArguments(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := shellCommand{text: "cat /proc/$$/cmdline; env; : s3cret", environ: os.Environ(), limit: time.Minute}
	require.NoError(t, s.run(t.Context(), &out))
	require.Contains(t, out.String(), "eval")
	require.NotContains(t, out.String(), "s3cret")
}
