package web

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// homeToken returns the token of a home's dashboards. It creates the token if there is none, and replaces it if
// others could have read it. Only the home's owner can read the file. Scripts and Prometheus read the token from
// it.
func homeToken(home layout.Home) (string, error) {
	if err := home.Make(); err != nil {
		return "", err
	}
	path := home.DashboardToken()
	if token, ok := readToken(path); ok {
		return token, nil
	}
	fresh := rand.Text()
	temporary, err := writeTemporary(string(home), fresh)
	if err != nil {
		return "", home.Error(err)
	}
	defer os.Remove(temporary)
	// Two dashboards may start at once. A link makes the complete file appear, and the first one stays.
	err = os.Link(temporary, path)
	if errors.Is(err, fs.ErrExist) {
		if token, ok := readToken(path); ok {
			return token, nil
		}
	}
	if err != nil { // others could read the existing file, or the file system has no links
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return "", home.Error(err)
	}
	return fresh, nil
}

// writeTemporary writes a token to a new file in dir that only its owner can read, and returns its path.
func writeTemporary(dir, token string) (path string, err error) {
	file, err := os.CreateTemp(dir, ".dashboard.token-*.tmp")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(token + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		os.Remove(file.Name())
	}
	return file.Name(), err
}

// readToken returns the token from a file that only its owner can read.
func readToken(path string) (token string, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", false
	}
	data, err := files.ReadBounded(path, 1024)
	token = strings.TrimSpace(string(data))
	return token, err == nil && goodToken(token)
}
