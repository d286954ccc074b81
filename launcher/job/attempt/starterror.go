package attempt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startError explains why a command could not start, with a remedy.
func startError(spec Spec, err error) error {
	try := ""
	_, missing := os.Stat(filepath.Join(spec.Dir, spec.Path))
	switch {
	case spec.Dir != "" && !isDir(spec.Dir):
		return fmt.Errorf("start %s: folder %s does not exist", spec.Path, spec.Dir)
	case errors.Is(err, syscall.ENOEXEC):
		try = "name the interpreter: sh " + spec.Path
	case errors.Is(err, exec.ErrNotFound) && missing == nil:
		try = "./" + spec.Path
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		try = "give the path of an existing program"
	case errors.Is(err, fs.ErrPermission):
		try = "name the interpreter, or chmod +x " + spec.Path
	case errors.Is(err, syscall.E2BIG):
		try = "fewer or shorter arguments"
	}
	if try != "" {
		return fmt.Errorf("start %s: %w. Try: %s", spec.Path, err, try)
	}
	return fmt.Errorf("start %s: %w", spec.Path, err)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
