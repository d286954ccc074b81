package settings

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/configs"
)

// maxFile bounds the size of a file, in bytes.
const maxFile = 4 << 20

// source is a parsed file.
type source struct {
	name      string // as the user typed it
	path      string // absolute, without symbolic links
	data      []byte
	info      fs.FileInfo
	format    string // yaml, json or text
	documents []*node
}

const (
	yamlFormat = "yaml"
	jsonFormat = "json"
	textFormat = "text"

	byteOrderMark = "\xef\xbb\xbf"
)

// readSource reads and parses a file.
func readSource(name, path string) (*source, error) {
	data, info, err := readFile(name, path)
	if err != nil {
		return nil, err
	}
	s := &source{name: name, path: path, data: data, info: info}
	return s, s.parse()
}

// realPath follows symbolic links, so that a change replaces the real file.
func realPath(dir string, p Place) (string, error) {
	if p.Within && !filepath.IsLocal(p.File) {
		return "", outside(p.File)
	}
	path, err := filepath.Abs(under(dir, p.File))
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", unreadable(p.File, err)
	}
	if p.Within {
		root, err := realFolder(dir)
		if err != nil {
			return "", err
		}
		if inside, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(inside) {
			return "", outside(p.File)
		}
	}
	return path, nil
}

func outside(name string) error {
	return &configs.Error{Key: "file", Value: name, Allowed: "a file in the folder, because a workload profile can name no others"}
}

func realFolder(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", unreadable(cmp.Or(dir, "."), err)
	}
	return path, nil
}

// readFile reads a regular file of bounded size. It never blocks on a pipe.
func readFile(name, path string) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, unreadable(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, unreadable(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &configs.Error{Key: "file", Value: name, Allowed: "a regular file; this one is a " + typeName(info.Mode())}
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, unreadable(name, err)
	}
	if len(data) > maxFile {
		return nil, nil, &configs.Error{Key: "file", Value: name, Allowed: fmt.Sprintf("at most %d MiB", maxFile>>20)}
	}
	return data, info, nil
}

func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "device or socket"
}

func unreadable(name string, err error) error {
	var why *fs.PathError
	if errors.As(err, &why) {
		err = why.Err
	}
	return &configs.Error{Key: "file", Value: name, Problem: "cannot read " + strconv.Quote(name), Remedy: err.Error()}
}

// writable returns an error if the file can't be replaced.
func (s *source) writable() error {
	refuse := func(why, remedy string) error {
		return &configs.Error{Problem: s.name + " " + why, Source: "nothing was changed", Remedy: remedy}
	}
	stat, ok := s.info.Sys().(*syscall.Stat_t)
	switch folder := filepath.Dir(s.path); {
	case ok && stat.Nlink > 1:
		return refuse(fmt.Sprintf("has %d names (hard links)", stat.Nlink), "make a copy of it: cp FILE COPY && mv COPY FILE")
	case s.info.Mode().Perm()&0o222 == 0, syscall.Access(s.path, accessWrite) != nil:
		return refuse("is read-only", "chmod u+w "+s.name+", or change the program that writes it")
	case syscall.Access(folder, accessWrite) != nil:
		return refuse("is in a folder that is not writable", "chmod u+w "+folder)
	}
	return nil
}

const accessWrite = 2 // W_OK of access(2)

// parse parses the file's values.
func (s *source) parse() error {
	if at := bytes.IndexByte(s.data, 0); at >= 0 || !utf8.Valid(s.data) {
		return &configs.Error{Key: "file", Value: s.name, Allowed: "UTF-8 text; this file is binary or has another encoding"}
	}
	s.format = format(s.path, s.data)
	documents, err := parse(s.format, s.path, s.data)
	if err == nil {
		s.documents = documents
		return nil
	}
	source, what := s.name, err.Error()
	if rest, ok := strings.CutPrefix(what, "line "); ok {
		if line, rest, ok := strings.Cut(rest, ": "); ok {
			if _, err := strconv.Atoi(line); err == nil {
				source, what = source+":"+line, rest
			}
		}
	}
	return &configs.Error{Problem: "file is not " + strings.ToUpper(s.format), Source: source, Remedy: what}
}

// format determines a file's format by its name, or else by its first bytes.
func format(path string, data []byte) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return yamlFormat
	case ".json", ".jsonc":
		return jsonFormat
	case "":
		text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte(byteOrderMark)), " \t\r\n")
		switch {
		case bytes.HasPrefix(text, []byte("{")):
			return jsonFormat
		case bytes.HasPrefix(text, []byte("---")), bytes.HasPrefix(text, []byte("%YAML")):
			return yamlFormat
		}
	}
	return textFormat
}

// parse parses a file's values. Offsets exclude a byte order mark.
func parse(format, path string, data []byte) ([]*node, error) {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	switch format {
	case yamlFormat:
		return parseYAML(data)
	case jsonFormat:
		return parseJSON(data)
	}
	return parseText(path, data), nil
}

// sum returns the SHA-256 of data, in hexadecimal.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
