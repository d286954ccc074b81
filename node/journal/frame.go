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
//	segment: magic[8] version:u32 round:u32 crc:u32                 crc over the 16 bytes before it
//	record:  length:u32 kind:u8 round:u32 crc:u32 payload crc:u32   crcs over the 9 bytes before and all before
//
// The header has its own checksum to distinguish a record cut off at the end of a file from one with a damaged length.
const (
	formatVersion = 1
	segmentHeader = 20
	recordHeader  = 13
	recordTrailer = 4

	// maxPayload bounds a record's payload, in bytes, compressed and uncompressed. The engine's protocol has the same
	// bound for an update.
	maxPayload = 64 << 20
)

var magic = [8]byte{'s', 'w', 'a', 'r', 'm', 'j', 'n', 'l'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind is the type of a record.
type kind uint8

const (
	kindGenerated kind = 1
	kindTrained   kind = 2
	kindDone      kind = 3
)

// errTorn reports that the end of a record or of a segment's header is missing, because the process or the machine
// failed during the write.
var errTorn = errors.New("it ends in the middle of a record")

// frame is a record's header and its position.
type frame struct {
	kind   kind
	round  int
	offset int64 // of the header, in bytes
	length int   // of the payload, in bytes
}

// end returns the offset after the record.
func (f frame) end() int64 { return f.offset + recordHeader + int64(f.length) + recordTrailer }

// encodeSegmentHeader returns the header of a segment.
func encodeSegmentHeader(round int) []byte {
	b := append(make([]byte, 0, segmentHeader), magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(round))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSegmentHeader returns the first round of a segment.
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
			"Try: continue the run with the program version that wrote it, or begin a new one with --fresh", ErrVersion, v, formatVersion)
	}
	return int(binary.LittleEndian.Uint32(b[12:])), nil
}

// encodeRecord adds header and checksums to a payload.
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

// readFrame reads the header of the record at offset. It returns io.EOF at the end of the file, and errTorn if the file
// ends within the record.
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

// readPayload reads a record's payload and verifies its checksum.
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

// shortOr converts the end of a file to errTorn.
func shortOr(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errTorn
	}
	return err
}

// tornIfZero returns errTorn if the file holds only zeros from offset on, as after a power failure. Otherwise it
// returns ErrDamaged.
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
