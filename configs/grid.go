package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxArms is the maximum number of arms in a sweep. A sweep compares all pairs: 64 arms are 2016 pairs.
const MaxArms = 64

// Axis is a key of the configuration and its values in a grid, each of the key's type.
type Axis struct {
	Key    string
	Values []any
}

// Grid is the axes of a sweep in their order. Its arms are all combinations of their values.
type Grid []Axis

// GridArm is one combination of a grid's values.
type GridArm struct {
	Suffix string         // appended to the configuration's name: lr1e-4-G8; see Name
	Values map[string]any // by key
}

// notInGrid maps keys that can't be an axis to the alternative.
var notInGrid = map[string]string{
	"experiment": "remove it: arms are named after their values",
	"preset":     "name the presets as the sweep's configurations",
	"seed":       "use --seeds",
	"rounds":     "remove it: runs of different length are not comparable",
	"models":     "write a configuration file for each value",
}

// ParseAxis reads an axis from a flag's value, learning_rate=1e-4,3e-4. A mistake is an *Error.
func ParseAxis(text string) (Axis, error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok {
		return Axis{}, &Error{Key: "grid", Value: text, Allowed: "KEY=VALUE,VALUE such as learning_rate=1e-4,3e-4"}
	}
	return newAxis(strings.TrimSpace(name), strings.Split(list, ","))
}

// newAxis checks an axis and converts its values to the key's type. Validate checks the ranges, on the whole
// configuration.
func newAxis(name string, texts []string) (Axis, error) {
	key, err := FindKey(name)
	if err != nil {
		return Axis{}, err
	}
	if remedy, refused := notInGrid[name]; refused {
		return Axis{}, &Error{Problem: "grid: key " + name + " cannot have several values", Remedy: remedy}
	}
	if len(texts) > MaxArms {
		return Axis{}, &Error{Key: name, Value: strconv.Itoa(len(texts)) + " values", Allowed: fmt.Sprintf("at most %d", MaxArms)}
	}
	axis := Axis{Key: name}
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			return Axis{}, &Error{Key: name, Value: text, Allowed: key.allowed()}
		}
		value, err := key.Parse(text)
		if err != nil {
			return Axis{}, err
		}
		if slices.Contains(axis.Values, value) {
			return Axis{}, &Error{Problem: fmt.Sprintf("grid: value %s of %s is given twice", quote(text), name), Remedy: "list each value once"}
		}
		axis.Values = append(axis.Values, value)
	}
	return axis, nil
}

// Check refuses a grid that repeats a key, or that has more than MaxArms arms for this number of configurations.
func (g Grid) Check(configurations int) error {
	arms := configurations
	for i, axis := range g {
		if slices.ContainsFunc(g[:i], func(a Axis) bool { return a.Key == axis.Key }) {
			return &Error{Problem: "grid: key " + axis.Key + " is given twice", Remedy: "give it once, with all its values"}
		}
		if arms *= len(axis.Values); arms > MaxArms {
			return &Error{Problem: fmt.Sprintf("grid: more than %d arms", MaxArms), Remedy: "use fewer values, because all pairs of arms are compared"}
		}
	}
	return nil
}

// Arms returns the grid's combinations. The last key's values vary fastest. A grid without axes has one arm, without
// values.
func (g Grid) Arms() []GridArm {
	arms := []GridArm{{Values: map[string]any{}}}
	for _, axis := range g {
		var more []GridArm
		for _, arm := range arms {
			for _, value := range axis.Values {
				next := GridArm{Suffix: arm.Suffix + "-" + axisName(axis.Key, value), Values: map[string]any{axis.Key: value}}
				for key, v := range arm.Values {
					next.Values[key] = v
				}
				more = append(more, next)
			}
		}
		arms = more
	}
	return arms
}

// longestName is the maximum length of an experiment's name, in characters.
const longestName = 64

// Name returns the arm's name for a configuration called base, at most longest characters: 4loc4ext-lr1e-4-G8. It
// depends only on base and the arm's own values. A longer name is cut and ends in a hash.
func (a GridArm) Name(base string, longest int) string {
	name := base + a.Suffix
	if len(name) <= longest {
		return name
	}
	return strings.TrimRight(name[:max(1, longest-7)], "-._") + "-" + shortHash(name)
}

// shortKeys maps keys to their short form in arms' names: the paper's letters, and common abbreviations.
var shortKeys = map[string]string{
	"learning_rate": "lr", "num_generations": "G", "num_train_samples": "I", "num_transplant_trees": "J",
}

// axisName formats a key and its value for an arm's name: lr1e-4, G8, system_prompt-none.
func axisName(key string, value any) string {
	short, ok := shortKeys[key]
	if !ok {
		short = key[strings.LastIndexByte(key, '.')+1:]
	}
	switch v := value.(type) {
	case float64:
		return short + FloatName(v)
	case string:
		return short + "-" + textName(v)
	case bool:
		return short + "-" + strconv.FormatBool(v)
	}
	return short + fmt.Sprint(value)
}

// FloatName formats a number in its usual short form: 0.001, 3e-4. Different numbers have different names.
func FloatName(x float64) string {
	if a := math.Abs(x); x == 0 || a >= 1e-3 && a < 1e6 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return "0" // unreachable: FormatFloat's exponent is a number
	}
	return mantissa + "e" + strconv.Itoa(n)
}

// textName replaces the characters of a text that a name can't contain. If that changes or shortens the text, it
// appends a hash of the whole.
func textName(text string) string {
	name := strings.Trim(notInModelName.ReplaceAllString(text, "-"), "-")
	if name != text || len(name) > longestModelName {
		return name[:min(len(name), longestModelName)] + "-" + shortHash(text)
	}
	return name
}

func shortHash(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:3])
}

// UnmarshalYAML reads a grid from a study's file: keys, each with a list of values.
func (g *Grid) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return gridMistake(node, "keys, each with a list of values")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, list := node.Content[i], node.Content[i+1]
		if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
			return gridMistake(list, "a list of values for "+quote(key.Value))
		}
		var texts []string
		for _, item := range list.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return gridMistake(item, "a number, text, true or false")
			}
			texts = append(texts, item.Value)
		}
		axis, err := newAxis(key.Value, texts)
		if err != nil {
			return fmt.Errorf("line %d: %w", key.Line, err)
		}
		*g = append(*g, axis)
	}
	return nil
}

func gridMistake(node *yaml.Node, allowed string) error {
	return fmt.Errorf("line %d: grid: %w", node.Line, &Error{Key: "grid", Value: node.Value, Allowed: allowed})
}

// expand replaces each of the study's experiments by the arms of its grid.
func (s *Study) expand() error {
	if len(s.Grid) == 0 {
		return nil
	}
	if err := s.Grid.Check(len(s.Experiments)); err != nil {
		return err
	}
	for _, axis := range s.Grid {
		if slices.Contains(ownByStudy, axis.Key) {
			return s.refuse("grid", axis.Key, "keys of an experiment except "+strings.Join(ownByStudy, ", "))
		}
	}
	var arms []StudyExperiment
	for _, e := range s.Experiments {
		if e.As != "" {
			return s.refuse(e.Name+".as", e.As, "no as in a study with a grid, which makes several experiments of each")
		}
		own, err := PresetValues(e.Set)
		if err != nil {
			return err
		}
		for _, arm := range s.Grid.Arms() {
			one := e
			one.Name, one.Set = arm.Name(e.Name, longestName-len(s.Name)-1), map[string]any{}
			for key, value := range own {
				one.Set[key] = value
			}
			for key, value := range arm.Values {
				if _, twice := own[key]; twice || key == "learning_rate" && e.LearningRateFactor > 0 {
					return s.refuse(e.Name, key, "this key either in set or in the grid")
				}
				one.Set[key] = value
			}
			arms = append(arms, one)
		}
	}
	s.Experiments = arms
	if s.Baseline == "" && len(arms) > 0 {
		s.Baseline = arms[0].Name
	}
	return nil
}
