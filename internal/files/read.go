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
