package diagnose

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
)

// trainingLog is the log to read.
type trainingLog struct {
	name string
	from io.ReadCloser
	size int64 // 0: unknown
	read int64
}

func (l *trainingLog) Close() { _ = l.from.Close() }

// openLog opens a file, stdin for "-", or the newest log in a folder.
func openLog(stdin io.Reader, name string) (*trainingLog, error) {
	refuse := func(why string) error {
		return &configs.Error{Key: "oom", Value: name, Source: "--oom", Allowed: "a log file, a folder with one, or - for stdin (" + why + ")"}
	}
	if name == "-" {
		return &trainingLog{name: "stdin", from: io.NopCloser(stdin)}, nil
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		newest, err := newestLog(name)
		if err != nil {
			return nil, refuse(err.Error())
		}
		return openLog(stdin, newest)
	}
	if err != nil {
		return nil, refuse(plainPathError(err))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, refuse(plainPathError(err))
	}
	log := &trainingLog{name: name, from: file}
	if info.Mode().IsRegular() {
		log.size = info.Size()
	}
	return log, nil
}

// plainPathError returns the error without the path, because the message already has it.
func plainPathError(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// logEndings are the extensions of log files in a folder.
var logEndings = []string{".log", ".err", ".out", ".txt"}

func newestLog(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", errors.New(plainPathError(err))
	}
	newest, at := "", time.Time{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(folder, e.Name()))
		if err != nil || !info.Mode().IsRegular() || !slices.Contains(logEndings, strings.ToLower(filepath.Ext(e.Name()))) {
			continue
		}
		if newest == "" || info.ModTime().After(at) {
			newest, at = filepath.Join(folder, e.Name()), info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("the folder has no file with the ending %s", strings.Join(logEndings, " "))
	}
	return newest, nil
}

// feed copies the log to the writers and shows the progress on a terminal.
func (l *trainingLog) feed(stderr io.Writer, to ...interface {
	io.Writer
	Close()
}) error {
	line := screen.NewStatusLine(stderr, 10*time.Second)
	buffer := make([]byte, 256<<10)
	const between = 64 << 20
	next := int64(between)
	for {
		n, err := l.from.Read(buffer)
		for _, w := range to {
			_, _ = w.Write(buffer[:n]) // neither fails
		}
		l.read += int64(n)
		if l.read >= next {
			next += between
			if l.size > 0 {
				line.Say(fmt.Sprintf("read %s of %s", units.Bytes(l.read), units.Bytes(l.size)))
			} else {
				line.Say("read " + units.Bytes(l.read))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &configs.Error{Problem: "cannot read the log " + l.name, Remedy: plainPathError(err)}
		}
	}
	line.End()
	for _, w := range to {
		w.Close()
	}
	return nil
}
