package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// The format, all integers little-endian:
//
//	segment: magic[8] version:u32 round:u32 crc:u32            crc over the 16 bytes before it
//	record:  length:u32 kind:u8 round:u32 crc:u32 payload crc:u32   the first crc over the 9 bytes before it, the second over all before it
//
// A header of its own sum tells a record that was cut off at the end of a file from one whose length was damaged.
const (
	formatVersion = 1
	segmentHeader = 20
	recordHeader  = 13
	recordTrailer = 4

	// maxPayload bounds a record's payload, compressed and not. The engine's protocol bounds an update to as much.
	maxPayload = 64 << 20
)

var magic = [8]byte{'s', 'w', 'a', 'r', 'm', 'j', 'n', 'l'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind is that of a record.
type kind uint8

const (
	kindGenerated kind = 1
	kindTrained   kind = 2
	kindDone      kind = 3
)

// errTorn is a record, or a segment's header, of which the end is not there: the process or the machine died while it
// was written.
var errTorn = errors.New("it ends in the middle of a record")

// frame is a record's header and where it lies.
type frame struct {
	kind   kind
	round  int
	offset int64 // of the header
	length int   // of the payload
}

// end is the offset after the record.
func (f frame) end() int64 { return f.offset + recordHeader + int64(f.length) + recordTrailer }

// encodeSegmentHeader returns a segment's first bytes.
func encodeSegmentHeader(round int) []byte {
	b := append(make([]byte, 0, segmentHeader), magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(round))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSegmentHeader returns the round that a segment begins with.
func decodeSegmentHeader(r io.ReaderAt) (int, error) {
	var b [segmentHeader]byte
	if n, err := r.ReadAt(b[:], 0); n < len(b) {
		return 0, shortOr(err)
	}
	if b == [segmentHeader]byte{} {
		return 0, errTorn
	}
	if [8]byte(b[:8]) != magic || binary.LittleEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], castagnoli) {
		return 0, fmt.Errorf("%w: its header's checksum differs", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return 0, fmt.Errorf("%w: its version is %d, this program reads %d. "+
			"Try: continue the run with the program that wrote it, or begin another with --fresh", ErrVersion, v, formatVersion)
	}
	return int(binary.LittleEndian.Uint32(b[12:])), nil
}

// encodeRecord frames a payload.
func encodeRecord(k kind, round int, payload []byte) ([]byte, error) {
	if len(payload) > maxPayload {
		return nil, fmt.Errorf("a record of %d bytes, more than %d", len(payload), maxPayload)
	}
	if round < 0 || round > math.MaxInt32 {
		return nil, fmt.Errorf("round %d is out of range", round)
	}
	b := make([]byte, 0, recordHeader+len(payload)+recordTrailer)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, byte(k))
	b = binary.LittleEndian.AppendUint32(b, uint32(round))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// readFrame reads the header of the record at offset: io.EOF where the file ends there, errTorn where it ends before
// the record does.
func readFrame(r io.ReaderAt, offset, size int64) (frame, error) {
	if offset >= size {
		return frame{}, io.EOF
	}
	var b [recordHeader]byte
	n, err := r.ReadAt(b[:], offset)
	if n < len(b) {
		return frame{}, shortOr(err)
	}
	if b == [recordHeader]byte{} {
		return frame{}, tornIfZero(r, offset)
	}
	f := frame{
		length: int(binary.LittleEndian.Uint32(b[:])), kind: kind(b[4]), round: int(binary.LittleEndian.Uint32(b[5:])), offset: offset,
	}
	switch {
	case binary.LittleEndian.Uint32(b[9:]) != crc32.Checksum(b[:9], castagnoli):
		return frame{}, fmt.Errorf("%w: the header's checksum of the record at byte %d differs", ErrDamaged, offset)
	case f.length > maxPayload || f.kind < kindGenerated || f.kind > kindDone || f.round > math.MaxInt32:
		return frame{}, fmt.Errorf("%w: the record at byte %d is of kind %d and %d bytes", ErrDamaged, offset, f.kind, f.length)
	case f.end() > size:
		return frame{}, errTorn
	}
	return f, nil
}

// readPayload reads and checks a whole record.
func readPayload(r io.ReaderAt, f frame) ([]byte, error) {
	b := make([]byte, f.end()-f.offset)
	if n, err := r.ReadAt(b, f.offset); n < len(b) {
		return nil, shortOr(err)
	}
	body := b[:len(b)-recordTrailer]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return nil, fmt.Errorf("%w: the checksum of the record at byte %d, of round %d, differs", ErrDamaged, f.offset, f.round)
	}
	return body[recordHeader:], nil
}

// shortOr makes of the end of a file errTorn.
func shortOr(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errTorn
	}
	return err
}

// tornIfZero is errTorn where a file holds nothing but zeros from offset on, as after a power cut, and damage
// otherwise.
func tornIfZero(r io.ReaderAt, offset int64) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.ReadAt(buffer, offset)
		for _, b := range buffer[:n] {
			if b != 0 {
				return fmt.Errorf("%w: zeros at byte %d", ErrDamaged, offset)
			}
		}
		offset += int64(n)
		if err != nil {
			return shortOr(err)
		}
	}
}
