package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// maxMetadata bounds the metadata that a verifier reads, in bytes. The tasks' own metadata stay below 30,000.
const maxMetadata = 1 << 20

// object is a JSON object that keeps the order of its keys. Values are bool, int, int64, *big.Int, float64, string,
// []string, []int, [][]int, object and []object.
type object []field

type field struct {
	key   string
	value any
}

// encode returns the output of Python's json.dumps with separators "," and ":": ASCII only, floats as repr prints
// them.
func (o object) encode() json.RawMessage { return appendValue(nil, o) }

// appendValue panics on a type that object does not list, which only a bug in this package can cause.
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case *big.Int:
		return v.Append(b, 10)
	case bool:
		return strconv.AppendBool(b, v)
	case float64:
		return append(b, pyFloat(v)...)
	case string:
		return appendString(b, v)
	case []string:
		return appendArray(b, v)
	case []int:
		return appendArray(b, v)
	case [][]int:
		return appendArray(b, v)
	case []object:
		return appendArray(b, v)
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.key), ':')
			b = appendValue(b, f.value)
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("task: metadata value of type %T", value))
}

func appendArray[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, element := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, element)
	}
	return append(b, ']')
}

// appendString quotes s as Python's ensure_ascii does: characters above U+FFFF as surrogate pairs.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	escape := func(unit rune) {
		b = append(b, '\\', 'u', hex[unit>>12&15], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
	}
	b = append(b, '"')
	for _, r := range s {
		if short := strings.IndexRune("\"\\\b\f\n\r\t", r); short >= 0 {
			b = append(b, '\\', `"\bfnrt`[short])
			continue
		}
		switch {
		case r >= 0x20 && r <= 0x7f:
			b = append(b, byte(r))
		case r <= 0xffff:
			escape(r)
		default:
			r -= 0x10000
			escape(0xd800 + r>>10)
			escape(0xdc00 + r&0x3ff)
		}
	}
	return append(b, '"')
}

// pyFloat is Python's repr of a finite float: the shortest digits that read back as f.
func pyFloat(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	if exponent < -4 || exponent >= 16 {
		return text
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// readMetadata decodes the keys of into. A verifier scores 0 on an error.
func readMetadata(item Item, into any) error {
	if len(item.Metadata) > maxMetadata {
		return errors.New("metadata over 1 MiB")
	}
	if err := json.Unmarshal(item.Metadata, into); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	return nil
}
