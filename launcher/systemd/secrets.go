package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// Secrets are arguments that a service keeps in files under its home, because all users can read a unit and the
// arguments of its process.
type Secrets struct {
	Home   layout.Home
	Unit   string            // name of the unit
	Values map[string]string // by flag, such as webhook
}

// folder returns the folder with the files.
func (s Secrets) folder() string { return s.Home.Path("services", s.Unit) }

// Path returns the path of the file with a flag's value.
func (s Secrets) Path(flag string) string { return filepath.Join(s.folder(), flag) }

// Write removes the files of an earlier service with that name and writes the new ones. Only the owner of the home
// can read them.
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
