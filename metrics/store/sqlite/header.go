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

// Offsets in the header of SQLite's files (https://www.sqlite.org/fileformat.html).
const (
	headerSize  = 100
	headerLog   = 18 // 2: write-ahead log mode, as in recorded databases
	headerCache = 48 // suggested size of the page cache; SQLite and its VACUUM preserve it
	headerID    = 68 // application_id
)

// sqliteMagic is the prefix of a database, gzipMagic that of a gzip file.
const (
	sqliteMagic = "SQLite format 3\x00"
	gzipMagic   = "\x1f\x8b"
)

// extractMark is the suggested page cache size of an extract, in pages: "EX". Other databases of this program have
// none.
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

// PeekHeader returns the header without advancing in.
func PeekHeader(in *bufio.Reader) Header {
	head, err := in.Peek(headerSize)
	if err != nil {
		return nil
	}
	return head
}

// Ours reports whether it is the header of a database of this program.
func (h Header) Ours() bool {
	return len(h) == headerSize && string(h[:len(sqliteMagic)]) == sqliteMagic && binary.BigEndian.Uint32(h[headerID:]) == ApplicationID
}

// IsPacked reports whether in starts with a gzip header.
func IsPacked(in *bufio.Reader) bool {
	magic, err := in.Peek(len(gzipMagic))
	return err == nil && string(magic) == gzipMagic
}

// IsExtract reports whether a file is an extract, plain or compressed, by its first bytes. It is false for a file in
// which runs were recorded later, and for a copy of a whole database.
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
