package files

import (
	"errors"
	"io"
	"os"
)

// ReadBounded reads at most limit+1 bytes, so that the caller can detect a file that is too long.
func ReadBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	return text, errors.Join(err, f.Close())
}

// ErrPublic reports that users other than the owner have access to a file with a secret.
var ErrPublic = errors.New("other users can read it")

// ReadSecret is ReadBounded for a file that only its owner can access. It returns ErrPublic for any other file.
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
