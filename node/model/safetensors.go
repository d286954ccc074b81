package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxHeaderBytes bounds a header's JSON. GPT-2's header has 14 KB. The format allows 100 MB.
const maxHeaderBytes = 4 << 20

// Tensor is one entry of a safetensors header.
type Tensor struct {
	DType       string   `json:"dtype"`
	Shape       []int64  `json:"shape"`
	DataOffsets [2]int64 `json:"data_offsets"` // begin and end in bytes, from the end of the header
}

// Elements is the number of elements: the product of the shape.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// ReadHeader reads the header of a safetensors file of size bytes, without its data: an eight-byte little-endian
// length, then JSON (https://github.com/huggingface/safetensors, "Format"). It checks that the types are known,
// that sizes follow from type and shape, and that offsets cover the data without gaps or overlap.
func ReadHeader(file io.Reader, size int64) (map[string]Tensor, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(file, prefix[:]); err != nil {
		return nil, errors.New("too short for a safetensors file")
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeaderBytes {
		return nil, fmt.Errorf("not a safetensors file: a header of %d bytes, at most %d", length, maxHeaderBytes)
	}
	if int64(length) > size-8 {
		return nil, fmt.Errorf("truncated: %d bytes, but the header alone takes %d", size, length+8)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(file, header); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	if !bytes.HasPrefix(header, []byte{'{'}) {
		return nil, errors.New("not a safetensors file: its header is not a JSON object")
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("bad header: %.200s", err)
	}
	delete(entries, "__metadata__")
	tensors := make(map[string]Tensor, len(entries))
	for name, entry := range entries {
		var tensor Tensor
		if err := json.Unmarshal(entry, &tensor); err != nil {
			return nil, fmt.Errorf("tensor %.100q: %.200s", name, err)
		}
		if err := checkTensor(tensor); err != nil {
			return nil, fmt.Errorf("tensor %.100q: %w", name, err)
		}
		tensors[name] = tensor
	}
	return tensors, checkCoverage(tensors, size-8-int64(length))
}

// dtypeBytes is the size of an element in bytes, 0 for an unknown type. node/policy/engine/weights.py has the same
// table.
func dtypeBytes(dtype string) int64 {
	switch dtype {
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2":
		return 1
	case "U16", "I16", "F16", "BF16":
		return 2
	case "U32", "I32", "F32":
		return 4
	case "U64", "I64", "F64":
		return 8
	}
	return 0
}

func checkTensor(t Tensor) error {
	bytes := dtypeBytes(t.DType)
	if bytes == 0 {
		return fmt.Errorf("unknown type %.20q", t.DType)
	}
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("dimension %d", d)
		}
		if d > 0 && bytes > (1<<62)/d {
			return errors.New("larger than any file")
		}
		bytes *= d
	}
	begin, end := t.DataOffsets[0], t.DataOffsets[1]
	if begin < 0 || end < begin || end-begin != bytes {
		return fmt.Errorf("%d bytes by type and shape, but offsets %d to %d", bytes, begin, end)
	}
	return nil
}

func checkCoverage(tensors map[string]Tensor, size int64) error {
	spans := make([][2]int64, 0, len(tensors))
	for _, t := range tensors {
		spans = append(spans, t.DataOffsets)
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	covered := int64(0)
	for _, span := range spans {
		if span[0] != covered {
			return fmt.Errorf("tensors overlap or leave a hole at byte %d of the data", covered)
		}
		covered = span[1]
	}
	if covered > size {
		return fmt.Errorf("truncated: the tensors take %d bytes, but the file has %d", covered, size)
	}
	if covered < size {
		return fmt.Errorf("%d bytes after the last tensor", size-covered)
	}
	return nil
}
