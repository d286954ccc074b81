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

// masked stands for a secret in a command line that is recorded or shown.
const masked = "***"

// secretFlags are those whose whole value may be a secret.
var secretFlags = []string{"webhook", "on-complete", "token", "url"}

// secretVariables are those whose value is a secret.
var secretVariables = []string{resolve.InvitationVariable, resolve.DashboardTokenVariable}

// password is what a URL says about its user.
var password = regexp.MustCompile(`(://)[^/@\s]*@`)

// maskWord returns a word without what is secret in it.
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

// isInvitation tells whether a word may be what lets somebody in: an address with a token after #.
func isInvitation(word string) bool {
	return strings.Contains(word, "://") && strings.Contains(word, "#")
}

// Secrets are what was masked in the command of a run's newest attempt. They are kept in the run's folder, where only
// this user can read it, so that swarm resume can go on with them.
type Secrets struct {
	Arguments   map[int]string    `json:"arguments,omitempty"`   // by their place in the recorded ones
	Environment map[string]string `json:"environment,omitempty"` // by name
}

func secretsPath(dir string) string { return filepath.Join(dir, "secrets.json") }

// Write keeps the secrets in a run's folder, and removes those of an earlier attempt.
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

// readSecrets are those of a run's folder; none where there is no file, or no usable one.
func readSecrets(dir string) (s Secrets) {
	data, err := files.ReadBounded(secretsPath(dir), configs.MaxDocument)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return Secrets{}
	}
	return s
}
