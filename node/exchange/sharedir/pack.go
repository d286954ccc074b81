package sharedir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

// maxWindow bounds the memory that a decoder allocates for an untrusted frame.
const maxWindow = 8 << 20

// errUnpack reports content that matches its file's name but that swarm did not write.
var errUnpack = errors.New("not readable")

// pack compresses data. Equal data give equal bytes.
func pack(data []byte) []byte { return encoder().EncodeAll(data, nil) }

// unpack is the inverse of pack. It allocates in proportion to its result, and returns errUnpack if the result exceeds
// limit.
func unpack(packed []byte, limit int) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnpack, err)
	}
	defer d.Close()
	data, err := io.ReadAll(io.LimitReader(d, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnpack, err)
	case len(data) > limit:
		return nil, fmt.Errorf("%w: it unpacks to more than %d bytes", errUnpack, limit)
	}
	return data, nil
}
