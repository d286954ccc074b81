package sqlite

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Places in the header of SQLite's files (https://www.sqlite.org/fileformat.html).
const (
	headerSize  = 100
	headerLog   = 18 // 2: changes are kept in a log beside the file, as where runs are recorded
	headerCache = 48 // a suggested size of the page cache, which SQLite and its VACUUM leave as it is
	headerID    = 68 // application_id
)

// sqliteMagic is what a database begins with, gzipMagic a gzip file.
const (
	sqliteMagic = "SQLite format 3\x00"
	gzipMagic   = "\x1f\x8b"
)

// extractMark is what an extract has for the size of the page cache, in pages: "EX". No other database of ours has any.
const extractMark = 0x4558

// MarkExtract marks a finished database as an extract.
func MarkExtract(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	_, err = file.WriteAt(binary.BigEndian.AppendUint32(nil, extractMark), headerCache)
	return errors.Join(err, file.Close())
}

// Header is the first bytes of a database.
type Header []byte

// PeekHeader reads a header, and leaves in where it is.
func PeekHeader(in *bufio.Reader) Header {
	head, err := in.Peek(headerSize)
	if err != nil {
		return nil
	}
	return head
}

// Ours tells whether it is of a database of this program's.
func (h Header) Ours() bool {
	return len(h) == headerSize && string(h[:len(sqliteMagic)]) == sqliteMagic && binary.BigEndian.Uint32(h[headerID:]) == ApplicationID
}

// IsPacked tells whether in begins as a gzip file.
func IsPacked(in *bufio.Reader) bool {
	magic, err := in.Peek(len(gzipMagic))
	return err == nil && string(magic) == gzipMagic
}

// IsExtract tells whether a file is an extract, plain or compressed, by its first bytes. One that runs were recorded in
// since isn't, nor is a copy of a whole database.
func IsExtract(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if IsPacked(in) {
		var from io.Reader
		if from, err = gzip.NewReader(in); err != nil {
			return false
		}
		in = bufio.NewReader(from)
	}
	h := PeekHeader(in)
	return h.Ours() && h[headerLog] == 1 && binary.BigEndian.Uint32(h[headerCache:]) == extractMark
}
