package task

import (
	"cmp"
	"errors"
	"math/big"
	"slices"
)

// basicArithmeticParams are the library's parameters of basic_arithmetic.
type basicArithmeticParams struct {
	MinTerms         int      `mapstructure:"min_terms" yaml:"min_terms" json:"min_terms"`
	MaxTerms         int      `mapstructure:"max_terms" yaml:"max_terms" json:"max_terms"`
	MinDigits        int      `mapstructure:"min_digits" yaml:"min_digits" json:"min_digits"`
	MaxDigits        int      `mapstructure:"max_digits" yaml:"max_digits" json:"max_digits"`
	Operators        []string `mapstructure:"operators" yaml:"operators" json:"operators"`
	AllowParentheses bool     `mapstructure:"allow_parentheses" yaml:"allow_parentheses" json:"allow_parentheses"`
	AllowNegation    bool     `mapstructure:"allow_negation" yaml:"allow_negation" json:"allow_negation"`
	FormatStyle      string   `mapstructure:"format_style" yaml:"format_style" json:"format_style"`
	Whitespace       string   `mapstructure:"whitespace" yaml:"whitespace" json:"whitespace"`
}

func defaultBasicArithmetic() basicArithmeticParams {
	return basicArithmeticParams{
		MinTerms: 2, MaxTerms: 6, MinDigits: 1, MaxDigits: 4, Operators: []string{"+", "-", "*", "/"},
		AllowParentheses: true, AllowNegation: true, FormatStyle: "natural", Whitespace: "single",
	}
}

// Validate returns an error with the first invalid key, its value and the allowed values. The upper bounds keep the
// search for divisors short.
func (p basicArithmeticParams) Validate() error {
	errs := []error{
		checkRange("min_terms", p.MinTerms, 1, 20),
		checkRange("max_terms", p.MaxTerms, max(p.MinTerms, 1), 20),
		checkRange("min_digits", p.MinDigits, 1, 9),
		checkRange("max_digits", p.MaxDigits, max(p.MinDigits, 1), 9),
		checkChoice("format_style", p.FormatStyle, "simple", "natural"),
		checkChoice("whitespace", p.Whitespace, "no_space", "single", "random"),
	}
	for _, operator := range p.Operators {
		errs = append(errs, checkChoice("operators", operator, "+", "-", "*", "/"))
	}
	switch {
	case len(p.Operators) == 0:
		errs = append(errs, errors.New("operators is empty: it must hold some of +, -, *, /"))
	case p.AllowParentheses && len(p.undivided()) == 0:
		errs = append(errs, errors.New("operators holds only /: with allow_parentheses it must also hold one of +, -, *"))
	}
	return cmp.Or(errs...)
}

// undivided returns the operators other than /, in the order given.
func (p basicArithmeticParams) undivided() []string {
	return slices.DeleteFunc(slices.Clone(p.Operators), func(operator string) bool { return operator == "/" })
}

// basicArithmetic asks for the value of an integer expression in which / rounds toward minus infinity.
type basicArithmetic struct{ params basicArithmeticParams }

func newBasicArithmetic(params basicArithmeticParams) (Task, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	params.Operators = slices.Clone(params.Operators)
	return basicArithmetic{params}, nil
}

func (basicArithmetic) Name() string { return "basic_arithmetic" }

func (t basicArithmetic) Item(seed, index int64) Item {
	g := arithmeticDraw{rng: newRNG(seed, index), params: t.params, undivided: t.params.undivided()}
	var terms, digits int
	var expression string
	// Draw again if the library would raise (a division by zero) or would not end (divisors of a huge number). An
	// expression without parentheses and division always succeeds, so that the loop ends.
	for {
		terms = g.rng.draw(t.params.MinTerms, t.params.MaxTerms)
		digits = g.rng.draw(t.params.MinDigits, t.params.MaxDigits)
		g.magnitude = pow10(digits)
		var value *big.Int
		var err error
		if t.params.AllowParentheses {
			expression, value, err = g.nested(terms)
		} else {
			expression, value, err = g.flat(terms)
		}
		if err != nil {
			continue
		}
		answer := value.String()
		return Item{
			Question: g.question(expression),
			Answer:   &answer,
			Metadata: object{
				{"source_dataset", t.Name()}, {"source_index", index}, {"expression", expression},
				{"num_terms", terms}, {"num_digits", digits},
				{"difficulty", object{
					{"num_terms", []int{t.params.MinTerms, t.params.MaxTerms}},
					{"num_digits", []int{t.params.MinDigits, t.params.MaxDigits}},
				}},
			}.encode(),
		}
	}
}

func (basicArithmetic) Score(item Item, answer *string) float64 { return baseScoreItem(item, answer) }
