package runlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// maxLine bounds a piece of a line, in bytes. Longer lines come in several pieces.
const maxLine = 64 << 10

// Line is a line of a log, or a piece of a line longer than 64 KiB.
type Line struct {
	Log  string    // Coordinator, or a node's name
	Time time.Time // of the newest line with a time; zero before the first
	Text string    // without the line ending
}

// logFile reads a log line by line: first the rotated file path.1, then path, then what is appended. It handles
// rotation, truncation and files that appear later. It holds one line in memory.
type logFile struct {
	name, path string
	follow     bool

	queue   []*os.File // files to read; the first is being read
	reader  *bufio.Reader
	offset  int64     // position in the first file
	partial []byte    // a line without its end so far
	time    time.Time // of the newest line with a time
}

// openLog opens the log at path, which may not exist yet, at its newest last lines. last < 0 means all lines.
func openLog(name, path string, last int, follow bool) (*logFile, error) {
	l := &logFile{name: name, path: path, follow: follow, reader: bufio.NewReaderSize(nil, 4<<10)}
	current, err := openIfThere(path)
	if err != nil {
		return nil, err
	}
	older, err := openIfThere(path + ".1")
	if err != nil {
		closeAll(current)
		return nil, err
	}
	if sameFile(current, older) { // rotated between the two opens: reading finds the rest
		closeAll(older)
		older = nil
	}
	for _, file := range []*os.File{current, older} { // newest first
		if file == nil {
			continue
		}
		found := 0
		if found, err = seekLast(file, last); err != nil {
			closeAll(current, older)
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if last >= 0 {
			last -= found
		}
	}
	for _, file := range []*os.File{older, current} {
		if file != nil {
			l.queue = append(l.queue, file)
		}
	}
	return l, l.rewind()
}

func openIfThere(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

func closeAll(files ...*os.File) {
	for _, file := range files {
		if file != nil {
			file.Close()
		}
	}
}

func sameFile(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// seekLast moves a file to the start of its last n lines, or to its start if n < 0. It returns how many lines
// follow, at most n.
func seekLast(file *os.File, n int) (found int, err error) {
	if n < 0 {
		return 0, nil
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for at := end; at > 0; {
		size := min(at, int64(len(block)))
		at -= size
		if _, err := file.ReadAt(block[:size], at); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := size - 1; i >= 0; i-- {
			if block[i] != '\n' || at+i == end-1 { // the end of the newest line
				continue
			}
			if found++; found == n {
				_, err := file.Seek(at+i+1, io.SeekStart)
				return found, err
			}
		}
	}
	if end > 0 {
		found++ // the first line
	}
	_, err = file.Seek(0, io.SeekStart)
	return found, err
}

// rewind lets the reader continue at the position of the queue's first file.
func (l *logFile) rewind() (err error) {
	l.offset = 0
	if len(l.queue) == 0 {
		return nil
	}
	l.reader.Reset(l.queue[0])
	l.offset, err = l.queue[0].Seek(0, io.SeekCurrent)
	return err
}

// next returns the next line, or false if there is none yet.
func (l *logFile) next() (Line, bool, error) {
	for {
		if len(l.queue) > 0 {
			line, ok, err := l.read()
			if ok || err != nil {
				return line, ok, err
			}
		}
		more, err := l.advance()
		if err != nil || !more {
			return Line{}, false, err
		}
	}
}

// read returns the next complete line of the first file, or a piece of maxLine bytes or more.
func (l *logFile) read() (Line, bool, error) {
	for {
		piece, err := l.reader.ReadSlice('\n')
		l.offset += int64(len(piece))
		l.partial = append(l.partial, piece...)
		switch {
		case err == nil || len(l.partial) >= maxLine:
			return l.take(), true, nil
		case errors.Is(err, io.EOF):
			return Line{}, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return Line{}, false, fmt.Errorf("read %s: %w", l.path, err)
		}
	}
}

// take turns the bytes read so far into a line.
func (l *logFile) take() Line {
	text := bytes.TrimRight(l.partial, "\r\n")
	if at, ok := timeIn(text); ok {
		l.time = at
	}
	line := Line{l.name, l.time, string(text)}
	l.partial = l.partial[:0]
	return line
}

// rest returns the unfinished last line of a log that no process writes to anymore.
func (l *logFile) rest() (Line, bool) {
	if len(l.partial) == 0 {
		return Line{}, false
	}
	return l.take(), true
}

// timeIn returns the time in a line of slog's text format.
func timeIn(text []byte) (time.Time, bool) {
	value, ok := bytes.CutPrefix(text, []byte("time="))
	if !ok {
		return time.Time{}, false
	}
	value, _, _ = bytes.Cut(value, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(value))
	return at, err == nil
}

// advance is called at the end of the first file. It reports whether there is more to read: the next file, a new
// file at the same path, or the same file after truncation.
func (l *logFile) advance() (bool, error) {
	if len(l.queue) > 1 {
		l.queue[0].Close()
		l.queue = l.queue[1:]
		return true, l.rewind()
	}
	if !l.follow {
		return false, nil
	}
	now, err := openIfThere(l.path)
	if now == nil || err != nil {
		return false, err
	}
	if len(l.queue) == 0 {
		l.queue = append(l.queue, now)
		return true, l.rewind()
	}
	if sameFile(now, l.queue[0]) {
		now.Close()
		return l.cut()
	}
	// Read first the lines that were written between the last look and the rotation, and any complete log that was
	// rotated away meanwhile.
	l.queue = append(l.queue, l.missed(now)...)
	l.queue = append(l.queue, now)
	return true, nil
}

// missed returns the rotated log before now, unless it is the one being read.
func (l *logFile) missed(now *os.File) []*os.File {
	older, err := openIfThere(l.path + ".1")
	if older == nil || err != nil {
		return nil
	}
	if sameFile(older, l.queue[0]) || sameFile(older, now) {
		older.Close()
		return nil
	}
	return []*os.File{older}
}

// cut starts the file again if it has become shorter than the position read.
func (l *logFile) cut() (bool, error) {
	info, err := l.queue[0].Stat()
	if err != nil || info.Size() >= l.offset {
		return false, err
	}
	if _, err := l.queue[0].Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	l.partial = l.partial[:0]
	return true, l.rewind()
}

func (l *logFile) close() { closeAll(l.queue...) }
