package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// Secrets are arguments that a service keeps in files under its home. Everybody can read a unit, and the arguments of
// what it starts.
type Secrets struct {
	Home   layout.Home
	Unit   string            // its name
	Values map[string]string // by the flag, such as webhook
}

// folder holds the files.
func (s Secrets) folder() string { return s.Home.Path("services", s.Unit) }

// Path is the file of a flag's value.
func (s Secrets) Path(flag string) string { return filepath.Join(s.folder(), flag) }

// Write writes the files, for the owner of the home, and removes those of an earlier service of that name.
func (s Secrets) Write() error {
	if err := s.Remove(); err != nil || len(s.Values) == 0 {
		return err
	}
	if err := s.Home.Make(); err != nil {
		return err
	}
	if err := files.MakeFolder(s.folder(), 0o700); err != nil {
		return s.Home.Error(err)
	}
	paths := []string{filepath.Dir(s.folder()), s.folder()}
	for flag, value := range s.Values {
		if err := files.WriteSecret(s.Path(flag), []byte(value+"\n")); err != nil {
			return s.Home.Error(err)
		}
		paths = append(paths, s.Path(flag))
	}
	info, err := os.Stat(string(s.Home))
	if err != nil {
		return s.Home.Error(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	for _, path := range paths { // the unit runs as the home's owner
		if err := os.Lchown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return s.Home.Error(err)
		}
	}
	return nil
}

// Remove removes the files.
func (s Secrets) Remove() error {
	if s.Home == "" || s.Unit == "" {
		return nil
	}
	if err := os.RemoveAll(s.folder()); err != nil {
		return fmt.Errorf("remove the service's files: %w", err)
	}
	return nil
}
