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

// MaxArms bounds what a sweep compares each with each: 64 arms are 2016 pairs.
const MaxArms = 64

// Axis is a key of the configuration with the values that a grid has of it, each of the key's type.
type Axis struct {
	Key    string
	Values []any
}

// Grid is the axes of a sweep in their order. Its arms are one for each combination of values.
type Grid []Axis

// GridArm is one combination of a grid's values.
type GridArm struct {
	Suffix string         // lr1e-4-G8: what its name has after its configuration's, see Name
	Values map[string]any // by key
}

// notInGrid says of keys that can't be an axis what to do instead.
var notInGrid = map[string]string{
	"experiment": "leave it out: arms are named by their values",
	"preset":     "name the presets as the sweep's configurations",
	"seed":       "use --seeds",
	"rounds":     "leave it out: runs of unequal length don't compare",
	"models":     "write a configuration file for each value",
}

// ParseAxis reads an axis as a flag has it, learning_rate=1e-4,3e-4. A mistake is an *Error.
func ParseAxis(text string) (Axis, error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok {
		return Axis{}, &Error{Key: "grid", Value: text, Allowed: "KEY=VALUE,VALUE such as learning_rate=1e-4,3e-4"}
	}
	return newAxis(strings.TrimSpace(name), strings.Split(list, ","))
}

// newAxis checks an axis and gives its values their type. Whether they are in the key's range, Validate tells of the
// whole configuration.
func newAxis(name string, texts []string) (Axis, error) {
	key, err := FindKey(name)
	if err != nil {
		return Axis{}, err
	}
	if remedy, refused := notInGrid[name]; refused {
		return Axis{}, &Error{Problem: "grid: key " + name + " can't have several values", Remedy: remedy}
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
			return Axis{}, &Error{Problem: fmt.Sprintf("grid: value %s of %s is given twice", quote(text), name), Remedy: "each once"}
		}
		axis.Values = append(axis.Values, value)
	}
	return axis, nil
}

// Check refuses a grid with a key twice, or with more than MaxArms arms for so many configurations.
func (g Grid) Check(configurations int) error {
	arms := configurations
	for i, axis := range g {
		if slices.ContainsFunc(g[:i], func(a Axis) bool { return a.Key == axis.Key }) {
			return &Error{Problem: "grid: key " + axis.Key + " is given twice", Remedy: "once, with all of its values"}
		}
		if arms *= len(axis.Values); arms > MaxArms {
			return &Error{Problem: fmt.Sprintf("grid: more than %d arms", MaxArms), Remedy: "fewer values: all arms are compared, each with each"}
		}
	}
	return nil
}

// Arms are the grid's combinations, the last key's values first. A grid without axes has one, of nothing.
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

// longestName is that of an experiment.
const longestName = 64

// Name is the arm's, of a configuration that is called base, with at most longest characters: 4loc4ext-lr1e-4-G8. It
// depends only on the arm's own values. A longer one ends in a hash.
func (a GridArm) Name(base string, longest int) string {
	name := base + a.Suffix
	if len(name) <= longest {
		return name
	}
	return strings.TrimRight(name[:max(1, longest-7)], "-._") + "-" + shortHash(name)
}

// shortKeys are the names of keys in arms' names, where they aren't the keys' own: the paper's letters, and the
// field's.
var shortKeys = map[string]string{
	"learning_rate": "lr", "num_generations": "G", "num_train_samples": "I", "num_transplant_trees": "J",
}

// axisName is a key with a value as arms' names have them: lr1e-4, G8, system_prompt-none.
func axisName(key string, value any) string {
	short, ok := shortKeys[key]
	if !ok {
		short = key[strings.LastIndexByte(key, '.')+1:]
	}
	switch v := value.(type) {
	case float64:
		return short + floatName(v)
	case string:
		return short + "-" + textName(v)
	case bool:
		return short + "-" + strconv.FormatBool(v)
	}
	return short + fmt.Sprint(value)
}

// floatName writes a number as people do: 0.001, 3e-4. Different numbers have different names.
func floatName(x float64) string {
	if a := math.Abs(x); x == 0 || a >= 1e-3 && a < 1e6 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return "0" // FormatFloat's exponent is a number
	}
	return mantissa + "e" + strconv.Itoa(n)
}

// textName is a text that a name can have. One that loses characters by that gets a hash of the whole.
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

// UnmarshalYAML reads a grid as a study's file has it: keys with lists of values.
func (g *Grid) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return gridMistake(node, "keys with lists of values")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, list := node.Content[i], node.Content[i+1]
		if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
			return gridMistake(list, "a list of values of "+quote(key.Value))
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

// expand puts the arms of the study's grid into the places of its experiments.
func (s *Study) expand() error {
	if len(s.Grid) == 0 {
		return nil
	}
	if err := s.Grid.Check(len(s.Experiments)); err != nil {
		return err
	}
	for _, axis := range s.Grid {
		if slices.Contains(ownByStudy, axis.Key) {
			return s.refuse("grid", axis.Key, "keys of an experiment but "+strings.Join(ownByStudy, ", "))
		}
	}
	var arms []StudyExperiment
	for _, e := range s.Experiments {
		if e.As != "" {
			return s.refuse(e.Name+".as", e.As, "nothing beside a grid, which makes other experiments of it")
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
					return s.refuse(e.Name, key, "in its set or in the grid, not in both")
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
