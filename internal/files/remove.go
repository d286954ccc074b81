package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// asidePrefix begins the names of folders that have been set aside to be removed.
const asidePrefix = ".removed-"

// Remove removes the folder or file name of root with all in it. It renames it first, so that whoever looks sees either
// all of it or nothing; what an interrupted Remove left aside, EmptyAside removes. Links are removed and not followed.
// It is an error where name leads out of root, and none where nothing is there.
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

// Aside are the names in root that an interrupted Remove left.
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
