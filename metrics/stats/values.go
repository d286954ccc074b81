package stats

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Values are numbers that may be unknown: NaN and infinities become null in JSON, and null becomes NaN.
type Values []float64

// Value is a number that may be unknown: NaN and infinities become null in JSON, and null becomes NaN.
type Value float64

// MarshalJSON writes the shortest number that parses to the same value.
func (v Value) MarshalJSON() ([]byte, error) {
	if !units.Finite(float64(v)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', -1, 64), nil
}

// UnmarshalJSON is the inverse of MarshalJSON, except for infinities.
func (v *Value) UnmarshalJSON(text []byte) error {
	x := new(float64)
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	*v = Value(math.NaN())
	if x != nil {
		*v = Value(*x)
	}
	return nil
}

// MarshalJSON writes an array of the shortest numbers that parse to the same values, [] for no values.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+20*len(v))
	out = append(out, '[')
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if units.Finite(x) {
			out = strconv.AppendFloat(out, x, 'g', -1, 64)
		} else {
			out = append(out, "null"...)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON is the inverse of MarshalJSON, except for infinities.
func (v *Values) UnmarshalJSON(text []byte) error {
	var list []*float64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*v = make(Values, len(list))
	for i, x := range list {
		(*v)[i] = math.NaN()
		if x != nil {
			(*v)[i] = *x
		}
	}
	return nil
}
