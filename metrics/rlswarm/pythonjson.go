package rlswarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/pythonjson"
)

// decode decodes the output of Python's json.dump: JSON that may contain NaN, Infinity and -Infinity as numbers.
func decode(text []byte, into any) error {
	err := json.Unmarshal(pythonjson.Quote(text), into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return errors.New("it is truncated or not JSON")
	case errors.As(err, &kind) && kind.Field == "":
		return errors.New("it is not a JSON object")
	case errors.As(err, &kind):
		return fmt.Errorf("%s has the wrong type: %s", kind.Field, kind.Value)
	}
	return err
}

// number is a JSON number, or one of Python's three words in the form of pythonjson.Quote.
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
			return fmt.Errorf("%s is not a number", shorten(strings.Trim(string(text), `"`)))
		}
		*n = number(v)
	}
	return nil
}

// whole returns n as an integer in low..high.
func (n *number) whole(what string, low, high int) (int, error) {
	if n == nil {
		return 0, errors.New("it has no " + what)
	}
	v := float64(*n)
	if v != math.Trunc(v) || v < float64(low) || v > float64(high) { // NaN is not equal to itself
		return 0, fmt.Errorf("%s %v is not a whole number from %d to %d", what, v, low, high)
	}
	return int(v), nil
}

func shorten(text string) string {
	if len(text) > 40 {
		return strconv.Quote(text[:40] + "…")
	}
	return strconv.Quote(text)
}
