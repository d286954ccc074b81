package files

import (
	"errors"
	"io"
	"os"
)

// ReadBounded reads at most one byte more than limit: a parser refuses what comes after it.
func ReadBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	return text, errors.Join(err, f.Close())
}

// ErrPublic is of a file with a secret that others than its owner can read.
var ErrPublic = errors.New("others can read it")

// ReadSecret is ReadBounded of a file that only its owner can read; any other is ErrPublic.
func ReadSecret(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, ErrPublic
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}
