package task

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
)

// Names lists the nine tasks in the order of rl-swarm's configuration.
func Names() []string {
	return []string{
		"arc_1d", "basic_arithmetic", "base_conversion", "bf", "binary_matrix", "calendar_arithmetic",
		"decimal_arithmetic", "fraction_simplification", "propositional_logic",
	}
}

// New makes the task of that name. params uses the library's parameter names, as decoded from YAML or JSON. A
// missing parameter has rl-swarm's value. bf's "words" replaces the built-in word list. New returns an error that
// wraps ErrUnknownTask, or one with the key, its value and the allowed values.
func New(name string, params map[string]any) (Task, error) {
	switch name {
	case "arc_1d":
		return build(name, params, defaultArc1D(), newArc1D)
	case "basic_arithmetic":
		return build(name, params, defaultBasicArithmetic(), newBasicArithmetic)
	case "base_conversion":
		return build(name, params, defaultBaseConversion(), newBaseConversion)
	case "bf":
		return build(name, params, defaultBF(), newBF)
	case "binary_matrix":
		return build(name, params, defaultBinaryMatrix(), newBinaryMatrix)
	case "calendar_arithmetic":
		return build(name, params, defaultCalendar(), newCalendarArithmetic)
	case "decimal_arithmetic":
		return build(name, params, defaultDecimal(), newDecimalArithmetic)
	case "fraction_simplification":
		return build(name, params, defaultFraction(), newFractionSimplification)
	case "propositional_logic":
		return build(name, params, defaultPropositional(), newPropositionalLogic)
	}
	return nil, fmt.Errorf("%w %q: known are %s", ErrUnknownTask, name, strings.Join(Names(), ", "))
}

// build decodes params over defaults and calls ctor, which validates them.
func build[P any](name string, params map[string]any, defaults P, ctor func(P) (Task, error)) (Task, error) {
	if err := decodeParams(params, &defaults); err != nil {
		return nil, fmt.Errorf("task %s: %w", name, err)
	}
	task, err := ctor(defaults)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", name, err)
	}
	return task, nil
}

// decodeParams sets the fields of into, a pointer to a struct. It does not convert types, except a number without
// fraction to an integer.
func decodeParams(params map[string]any, into any) error {
	known := paramKeys(into)
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("unknown parameter %q: known are %s", key, strings.Join(known, ", "))
		}
		if params[key] == nil {
			return fmt.Errorf("%s is null: remove it to use its default", key)
		}
	}
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result:      into,
		ErrorUnused: true,
		ZeroFields:  true, // a list replaces the default list
		MatchName:   func(key, field string) bool { return key == field },
		DecodeHook:  refuseFraction,
	})
	if err != nil {
		return fmt.Errorf("decode parameters: %w", err)
	}
	if err := decoder.Decode(params); err != nil {
		return fmt.Errorf("decode parameters: %w", err)
	}
	return nil
}

func paramKeys(into any) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		keys = append(keys, f.Tag.Get("mapstructure"))
	}
	return keys
}

var errNotInteger = errors.New("it must be a whole number")

// refuseFraction stops mapstructure from truncating fractions and wrapping large numbers.
func refuseFraction(from, to reflect.Value) (any, error) {
	if to.CanInt() {
		switch {
		case from.CanFloat():
			if f := from.Float(); f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return nil, fmt.Errorf("%v: %w", f, errNotInteger)
			}
		case from.CanUint() && from.Uint() > math.MaxInt64:
			return nil, fmt.Errorf("%v: %w", from.Uint(), errNotInteger)
		}
	}
	return from.Interface(), nil
}
