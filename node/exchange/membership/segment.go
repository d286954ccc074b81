package membership

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
)

// A segment of an outbox has one event per line: checksum, index within the segment, event.
//
// 1f2e3d4c 17 {"type":"round",...}
//
// The checksum is CRC-32C over the rest of the line. A line without its end was being written when the process or the
// machine failed. It was never delivered, because events are on disk before they are delivered. Any other invalid line
// was damaged later. It becomes a tombstone, so that the events after it keep their numbers.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const maxSegmentEvents = 1 << 20

// appendLine appends an event's line.
func appendLine(to []byte, index int, event json.RawMessage) []byte {
	rest := append(strconv.AppendInt(make([]byte, 0, len(event)+8), int64(index), 10), ' ')
	rest = append(rest, event...)
	to = fmt.Appendf(to, "%08x ", crc32.Checksum(rest, castagnoli))
	return append(append(to, rest...), '\n')
}

// parseLine parses a line. ok is false if it is damaged.
func parseLine(line []byte) (index int, event json.RawMessage, ok bool) {
	sum, rest, found := bytes.Cut(line, []byte{' '})
	if !found || len(sum) != 8 {
		return 0, nil, false
	}
	wanted, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(wanted) != crc32.Checksum(rest, castagnoli) {
		return 0, nil, false
	}
	number, event, found := bytes.Cut(rest, []byte{' '})
	index, err = strconv.Atoi(string(number))
	return index, event, found && err == nil && index >= 0 && index < maxSegmentEvents && json.Valid(event)
}

// parseSegment returns a segment's events in order, with tombstones for damaged ones. The results are slices of data.
func parseSegment(data []byte) (events []json.RawMessage) {
	harmed := 0
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			break
		}
		data = rest
		index, event, ok := parseLine(line)
		if !ok || index < len(events) {
			harmed++
			continue
		}
		for harmed > 0 && len(events) < index { // the first valid line after damaged ones tells how many there were
			events = append(events, tombstone)
		}
		events, harmed = append(events, event), 0
	}
	for range min(harmed, maxSegmentEvents) {
		events = append(events, tombstone)
	}
	return events
}

// measurement reports whether an outbox may drop an event when it is full, because the next event of its type replaces
// it.
func measurement(raw json.RawMessage) bool {
	var e struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return true // a tombstone or invalid
	}
	switch e.Type {
	case "", "state", "memory", "device":
		return true
	}
	return false
}
