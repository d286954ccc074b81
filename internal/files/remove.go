package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// asidePrefix starts the names of folders that Remove has renamed and not yet removed.
const asidePrefix = ".removed-"

// Remove removes the folder or file name in root with its content. It renames it first, so that readers see either
// all of it or nothing. EmptyAside removes what an interrupted Remove left. Remove does not follow links. It
// returns an error if name leads out of root, and nil if there is no such file.
func Remove(root *os.Root, name string) error {
	if name == "." || name == "" || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("remove %q: it is not the name of a file in %s", name, root.Name())
	}
	aside := fmt.Sprintf("%s%d-%d", asidePrefix, os.Getpid(), time.Now().UnixNano())
	err := root.Rename(name, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.RemoveAll(aside)
}

// Aside returns the names in root that an interrupted Remove left.
func Aside(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var aside []string
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) {
			aside = append(aside, name)
		}
	}
	return aside, err
}

// EmptyAside removes what an interrupted Remove left in root.
func EmptyAside(root *os.Root) error {
	names, err := Aside(root)
	for _, name := range names {
		err = errors.Join(err, root.RemoveAll(name))
	}
	return err
}
