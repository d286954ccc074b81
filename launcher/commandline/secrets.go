package commandline

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/files"
)

// masked replaces a secret in a recorded or shown command line.
const masked = "***"

// secretFlags are the flags whose whole value may be a secret.
var secretFlags = []string{"webhook", "on-complete", "token", "url"}

// secretVariables are the environment variables that hold a secret.
var secretVariables = []string{resolve.InvitationVariable, resolve.DashboardTokenVariable}

// password matches the user and password in a URL.
var password = regexp.MustCompile(`(://)[^/@\s]*@`)

// maskWord returns a word without the secret in it.
func maskWord(w typedWord) string {
	switch {
	case slices.Contains(secretFlags, w.flag) && w.value:
		return masked
	case slices.Contains(secretFlags, w.flag) && w.inline:
		return "--" + w.flag + "=" + masked
	case w.flag == "" && isInvitation(w.text):
		return masked
	}
	return password.ReplaceAllString(w.text, "${1}"+masked+"@")
}

// isInvitation reports whether a word may be an invitation: an address with a token after #.
func isInvitation(word string) bool {
	return strings.Contains(word, "://") && strings.Contains(word, "#")
}

// Secrets are the masked values in the command of a run's newest attempt. The run's folder keeps them in a file
// that only its owner can read, so that swarm resume can use them.
type Secrets struct {
	Arguments   map[int]string    `json:"arguments,omitempty"`   // by index in the recorded arguments
	Environment map[string]string `json:"environment,omitempty"` // by name
}

func secretsPath(dir string) string { return filepath.Join(dir, "secrets.json") }

// Write stores the secrets in a run's folder and removes those of an earlier attempt.
func (s Secrets) Write(dir string) error {
	if len(s.Arguments)+len(s.Environment) == 0 {
		if err := os.Remove(secretsPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return files.WriteSecret(secretsPath(dir), data)
}

// readSecrets returns the secrets in a run's folder, or none if the file is missing or unusable.
func readSecrets(dir string) (s Secrets) {
	data, err := files.ReadBounded(secretsPath(dir), configs.MaxDocument)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return Secrets{}
	}
	return s
}
