package task

import (
	"cmp"
	"fmt"
	"strconv"
)

type baseConversionParams struct {
	MinBase  int `mapstructure:"min_base" yaml:"min_base" json:"min_base"`
	MaxBase  int `mapstructure:"max_base" yaml:"max_base" json:"max_base"`
	MinValue int `mapstructure:"min_value" yaml:"min_value" json:"min_value"`
	MaxValue int `mapstructure:"max_value" yaml:"max_value" json:"max_value"`
}

func defaultBaseConversion() baseConversionParams {
	return baseConversionParams{MinBase: 2, MaxBase: 16, MinValue: 0, MaxValue: 1000}
}

// maxConversionValue keeps every value exact in JSON readers that hold numbers as doubles.
const maxConversionValue = 1 << 53

// Validate returns an error with the first invalid key, its value and the allowed values. It requires at least two
// bases, because source and target differ.
func (p baseConversionParams) Validate() error {
	return cmp.Or(
		checkRange("min_base", p.MinBase, 2, 35),
		checkRange("max_base", p.MaxBase, p.MinBase+1, 36),
		checkRange("min_value", p.MinValue, 0, maxConversionValue),
		checkRange("max_value", p.MaxValue, p.MinValue, maxConversionValue),
	)
}

// baseConversion asks for a number's digits in another base.
type baseConversion struct{ params baseConversionParams }

func newBaseConversion(p baseConversionParams) (Task, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &baseConversion{p}, nil
}

func (*baseConversion) Name() string { return "base_conversion" }

func (t *baseConversion) Item(seed, index int64) Item {
	p, r := t.params, newRNG(seed, index)
	value := r.draw(p.MinValue, p.MaxValue)
	source := r.draw(p.MinBase, p.MaxBase)
	target := r.draw(p.MinBase, p.MaxBase)
	for target == source {
		target = r.draw(p.MinBase, p.MaxBase)
	}
	digits, answer := digitsInBase(value, source), digitsInBase(value, target)
	return Item{
		Question: fmt.Sprintf("Write the %s number %s in %s. Use lowercase letters for digits above 9.",
			baseName(source), digits, baseName(target)),
		Answer: &answer,
		Metadata: object{
			{"source_dataset", t.Name()},
			{"source_index", index},
			{"decimal_value", value},
			{"source_base", source},
			{"target_base", target},
			{"source_repr", digits},
			{"target_repr", answer},
			{"difficulty", object{
				{"base", []int{p.MinBase, p.MaxBase}},
				{"value", []int{p.MinValue, p.MaxValue}},
			}},
		}.encode(),
	}
}

func (*baseConversion) Score(item Item, answer *string) float64 { return baseScoreItem(item, answer) }

// digitsInBase keeps a defect of the library, so that items are equal: it writes 0 without any digit in bases other
// than 2 and 16. Such an item has an empty answer and cannot score.
func digitsInBase(value, base int) string {
	if value == 0 && base != 2 && base != 16 {
		return ""
	}
	return strconv.FormatInt(int64(value), base)
}

func baseName(base int) string {
	switch base {
	case 2:
		return "binary"
	case 16:
		return "hexadecimal"
	}
	return "base-" + strconv.Itoa(base)
}
