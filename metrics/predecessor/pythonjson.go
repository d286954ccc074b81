package predecessor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// decode reads what Python's json.dump writes: JSON, with NaN, Infinity and -Infinity where a number may stand.
func decode(text []byte, into any) error {
	if !json.Valid(text) {
		text = quoteNonFinite(text)
	}
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return errors.New("it is cut off or no JSON")
	case errors.As(err, &kind) && kind.Field == "":
		return errors.New("it is no JSON object")
	case errors.As(err, &kind):
		return fmt.Errorf("%s is of the wrong kind: %s", kind.Field, kind.Value)
	}
	return err
}

// quoteNonFinite makes strings of Python's NaN, Infinity and -Infinity outside strings.
func quoteNonFinite(text []byte) []byte {
	var out bytes.Buffer
	inString := false
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case inString && c == '\\' && i+1 < len(text):
			out.Write(text[i : i+2])
			i += 2
			continue
		case c == '"':
			inString = !inString
		case !inString:
			if word := nonFiniteAt(text[i:]); word != "" {
				out.WriteString(`"` + word + `"`)
				i += len(word)
				continue
			}
		}
		out.WriteByte(text[i])
		i++
	}
	return out.Bytes()
}

func nonFiniteAt(text []byte) string {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// number is a JSON number, or one of Python's three words as quoteNonFinite leaves them.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*n = number(math.NaN())
	case `"Infinity"`:
		*n = number(math.Inf(1))
	case `"-Infinity"`:
		*n = number(math.Inf(-1))
	default:
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return fmt.Errorf("%s is no number", shorten(strings.Trim(string(text), `"`)))
		}
		*n = number(v)
	}
	return nil
}

// whole returns n as a whole number of low..high.
func (n *number) whole(what string, low, high int) (int, error) {
	if n == nil {
		return 0, errors.New("it has no " + what)
	}
	v := float64(*n)
	if v != math.Trunc(v) || v < float64(low) || v > float64(high) { // a NaN is not equal to itself
		return 0, fmt.Errorf("%s %v is no whole number from %d to %d", what, v, low, high)
	}
	return int(v), nil
}

func shorten(text string) string {
	if len(text) > 40 {
		return strconv.Quote(text[:40] + "…")
	}
	return strconv.Quote(text)
}
