package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of an item file, in bytes.
const maxLine = 1 << 20

// ReadItems reads JSON lines with question, answer (text or null) and metadata (an object, null or omitted). It
// skips empty lines. An error names the line, counted from 1.
func ReadItems(r io.Reader) ([]Item, error) {
	var items []Item
	lines := bufio.NewScanner(r)
	// The scanner needs space for the line's end too.
	lines.Buffer(nil, maxLine+2)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		item, err := readItem(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		items = append(items, item)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	return items, nil
}

func readItem(line []byte) (Item, error) {
	var item Item
	if err := json.Unmarshal(line, &item); err != nil {
		return Item{}, fmt.Errorf("read item: %w", err)
	}
	if item.Question == "" {
		return Item{}, errors.New("question is missing or empty")
	}
	if bytes.Equal(item.Metadata, []byte("null")) {
		item.Metadata = nil
	}
	if len(item.Metadata) > 0 && item.Metadata[0] != '{' {
		return Item{}, errors.New("metadata must be an object")
	}
	return item, nil
}
