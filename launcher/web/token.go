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

// homeToken is the token of a home's dashboards. It is made where there is none, and made anew where others could have
// read it. Only the home's owner can read its file, which scripts and Prometheus take it from.
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
	// Two dashboards may start at once. The file is whole when it appears, and the first stays.
	err = os.Link(temporary, path)
	if errors.Is(err, fs.ErrExist) {
		if token, ok := readToken(path); ok {
			return token, nil
		}
	}
	if err != nil { // it is of no use, for others could read it, or the file system has no links
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return "", home.Error(err)
	}
	return fresh, nil
}

// writeTemporary writes a token to a new file in dir that only its owner can read.
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

// readToken is the token in a file that only its owner can read.
func readToken(path string) (token string, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", false
	}
	data, err := files.ReadBounded(path, 1024)
	token = strings.TrimSpace(string(data))
	return token, err == nil && goodToken(token)
}
