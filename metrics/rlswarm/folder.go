package rlswarm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Limits of a folder's contents. A full experiment with 8 nodes and 2000 rounds has 16,000 reward files of 150 bytes
// and logs of 5 MB per node.
const (
	maxSmallFile = 1 << 20   // state, peers, configuration, one reward
	maxRollout   = 64 << 20  // one node's rollouts of a round
	maxLine      = 1 << 20   // per line of a log
	maxLog       = 1 << 30   // per log
	maxEntries   = 1_000_000 // per folder
	maxFiles     = 1_000_000 // read in total
	maxNodes     = 4096
	maxRound     = 10_000_000
)

// folder reads files below one experiment's folder. It does not follow links out of the folder.
type folder struct {
	ctx      context.Context
	root     *os.Root
	report   *Report
	progress func(files int)
}

// list returns the names in a folder, with round_2 before round_10. A missing folder has none.
func (f *folder) list(dir string) ([]string, error) {
	d, err := f.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		f.report.problem(dir, 0, reason(err))
		return nil, nil
	}
	defer d.Close()
	var names []string
	for {
		some, err := d.Readdirnames(4096)
		names = append(names, some...)
		switch {
		case len(names) > maxEntries:
			return nil, fmt.Errorf("%s has more than %d files", dir, maxEntries)
		case err == nil:
			if err := context.Cause(f.ctx); err != nil {
				return nil, err
			}
			continue
		case !errors.Is(err, io.EOF):
			f.report.problem(dir, 0, reason(err))
		}
		slices.SortFunc(names, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		return names, nil
	}
}

// open opens a regular file. It returns nil if the file is missing or unusable, and records the latter as a problem.
func (f *folder) open(name string, limit int64) (*os.File, error) {
	if err := context.Cause(f.ctx); err != nil {
		return nil, err
	}
	info, err := f.root.Stat(name) // before opening, which would block on a pipe
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		f.report.problem(name, 0, reason(err))
		return nil, nil
	case !info.Mode().IsRegular():
		f.report.problem(name, 0, "it is not a file")
		return nil, nil
	case info.Size() > limit:
		f.report.problem(name, 0, fmt.Sprintf("it has %d bytes, more than %d", info.Size(), limit))
		return nil, nil
	}
	if f.report.Files++; f.report.Files > maxFiles {
		return nil, fmt.Errorf("there are more than %d files", maxFiles)
	}
	if f.progress != nil && f.report.Files%500 == 0 {
		f.progress(f.report.Files)
	}
	file, err := f.root.Open(name)
	if err != nil {
		f.report.problem(name, 0, reason(err))
		return nil, nil
	}
	return file, nil
}

// read returns a small file's text, or nil if there is none.
func (f *folder) read(name string, limit int64) ([]byte, error) {
	file, err := f.open(name, limit)
	if file == nil || err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		f.report.problem(name, 0, reason(err))
		return nil, nil
	}
	return text, nil
}

// readJSON decodes a small file, and reports whether it succeeded.
func (f *folder) readJSON(name string, limit int64, into any) (bool, error) {
	text, err := f.read(name, limit)
	if text == nil || err != nil {
		return false, err
	}
	if err := decode(text, into); err != nil {
		f.report.problem(name, 0, err.Error())
		return false, nil
	}
	return true, nil
}

// lines calls take with each non-blank line of a log, and records the errors of take as problems.
func (f *folder) lines(name string, take func(text []byte) error) error {
	file, err := f.open(name, maxLog)
	if file == nil || err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(io.LimitReader(file, maxLog), 64<<10)
	for line := 1; ; line++ {
		text, err := readLine(in)
		if errors.Is(err, errLongLine) {
			f.report.problem(name, line, err.Error())
			continue
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if err := take(text); err != nil {
				f.report.problem(name, line, err.Error())
			}
		}
		if line%1000 == 0 && f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			f.report.problem(name, line, reason(err))
			return nil
		}
	}
}

var errLongLine = fmt.Errorf("it is longer than %d bytes", maxLine)

// readLine returns the next line, and skips lines that are too long.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine
		}
		return line, err
	}
}

// reason returns the text of an error without the path.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
