package journal

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The codecs are created at first use and reused, because creating their tables costs more than coding a record.
// EncodeAll and DecodeAll keep no state.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPayload), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// encodePayload returns a record as compressed JSON.
func encodePayload(record any) ([]byte, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	if len(data) > maxPayload {
		return nil, fmt.Errorf("a record of %d bytes, more than %d", len(data), maxPayload)
	}
	return encoder().EncodeAll(data, nil), nil
}

// decodePayload is the inverse of encodePayload. Its errors wrap ErrDamaged.
func decodePayload[T any](payload []byte) (*T, error) {
	data, err := decoder().DecodeAll(payload, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	record := new(T)
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return record, nil
}

// add decodes a record into the round.
func (r *Round) add(k kind, payload []byte) error {
	var err error
	switch k {
	case kindGenerated:
		r.Generated, err = decodePayload[Generated](payload)
	case kindTrained:
		r.Trained, err = decodePayload[Trained](payload)
	case kindDone:
		r.Done, err = decodePayload[Done](payload)
	}
	return err
}
