package targets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// Print prints only the job file and names the others. It prints no secret.
func (s Spec) Print(files []File, stdout, stderr io.Writer) error {
	if _, err := fmt.Fprint(stdout, files[0].Text); err != nil {
		return err
	}
	var rest []string
	for _, f := range files[1:] {
		rest = append(rest, f.Name)
	}
	_, err := fmt.Fprintf(stderr, "Also needed in %s: %s (write them with --out)\n", s.Dir, strings.Join(rest, ", "))
	return err
}

// Write writes the files into Dir and prints their paths. With force it replaces existing files.
func (s Spec) Write(files []File, force bool, stdout io.Writer) error {
	if !force {
		for _, f := range files {
			path := filepath.Join(s.Dir, f.Name)
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				return fail.Usage(fmt.Errorf("%s already exists", path), "--force to replace it, or --out with another folder")
			}
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(s.Dir, f.Name)
		if strings.HasSuffix(f.Name, "/") {
			if err := os.MkdirAll(path, f.Mode); err != nil {
				return fmt.Errorf("write the job files: %w", err)
			}
			continue
		}
		if err := writeJob(path, f); err != nil {
			return fmt.Errorf("write the job files: %w", err)
		}
		note := ""
		if f.Secret {
			note = "   (contains the invitation, a secret)"
		}
		fmt.Fprintf(stdout, "Wrote %s%s\n", path, note)
	}
	_, err := fmt.Fprintf(stdout, "Start with: %s\n", s.Next())
	return err
}

// writeJob always creates a new file, so that a secret never gets an older file's permissions or goes through a
// link.
func writeJob(path string, f File) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.Text)
	return errors.Join(err, file.Chmod(f.Mode), file.Close())
}
