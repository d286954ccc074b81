package task

import (
	"cmp"
	"fmt"
	"math/big"
)

// decimalParams are the library's parameters of decimal_arithmetic.
type decimalParams struct {
	MinNumDecimalPlaces int `mapstructure:"min_num_decimal_places" yaml:"min_num_decimal_places" json:"min_num_decimal_places"`
	MaxNumDecimalPlaces int `mapstructure:"max_num_decimal_places" yaml:"max_num_decimal_places" json:"max_num_decimal_places"`
	MinTerms            int `mapstructure:"min_terms" yaml:"min_terms" json:"min_terms"`
	MaxTerms            int `mapstructure:"max_terms" yaml:"max_terms" json:"max_terms"`
	// Precision is the number of significant digits to which every operation is rounded.
	Precision int `mapstructure:"precision" yaml:"precision" json:"precision"`
}

func defaultDecimal() decimalParams {
	return decimalParams{MinNumDecimalPlaces: 1, MaxNumDecimalPlaces: 3, MinTerms: 2, MaxTerms: 6, Precision: 5}
}

// Validate returns an error with the first invalid key, its value and the allowed values. Up to 10 places the
// library's detour through binary floats loses nothing.
func (p decimalParams) Validate() error {
	return cmp.Or(
		checkRange("min_num_decimal_places", p.MinNumDecimalPlaces, 0, 10),
		checkRange("max_num_decimal_places", p.MaxNumDecimalPlaces, max(p.MinNumDecimalPlaces, 0), 10),
		checkRange("min_terms", p.MinTerms, 1, 50),
		checkRange("max_terms", p.MaxTerms, max(p.MinTerms, 1), 50),
		checkRange("precision", p.Precision, p.MaxNumDecimalPlaces+2, 50),
	)
}

// decimalArithmetic asks for the value of an expression of decimals, with each operation rounded.
type decimalArithmetic struct {
	params  decimalParams
	context decimalContext
}

func newDecimalArithmetic(params decimalParams) (Task, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	return decimalArithmetic{params, decimalContext{params.Precision}}, nil
}

func (decimalArithmetic) Name() string { return "decimal_arithmetic" }

func (t decimalArithmetic) Item(seed, index int64) Item {
	r := newRNG(seed, index)
	var problem decimalProblem
	var value decimal
	// Draw again after a division by zero, on which the library raises.
	for {
		problem = t.draw(r)
		var err error
		if value, err = evaluateDecimal(problem.text, t.context); err == nil {
			break
		}
	}
	answer := value.String()
	return Item{
		Question: fmt.Sprintf("%s = ?\nRound every step to %d significant digits. Answer with the number only.",
			problem.text, t.params.Precision),
		Answer: &answer,
		Metadata: object{
			{"source_dataset", t.Name()}, {"source_index", index},
			{"decimal_places", problem.places}, {"num_terms", problem.terms},
			{"difficulty", object{
				{"decimal_places", []int{t.params.MinNumDecimalPlaces, t.params.MaxNumDecimalPlaces}},
				{"num_terms", []int{t.params.MinTerms, t.params.MaxTerms}},
			}},
		}.encode(),
	}
}

type decimalProblem struct {
	text   string
	terms  int
	places int // largest number of decimal places, at least 1
}

func (t decimalArithmetic) draw(r *rng) decimalProblem {
	problem := decimalProblem{terms: r.draw(t.params.MinTerms, t.params.MaxTerms), places: 1}
	operands := make([]string, problem.terms)
	operators := make([]string, problem.terms-1)
	for i := range operands {
		places := r.draw(t.params.MinNumDecimalPlaces, t.params.MaxNumDecimalPlaces)
		problem.places = max(problem.places, places)
		raw := r.draw(1, 10*pow10(places))
		operands[i] = decimal{coefficient: big.NewInt(int64(raw)), exponent: -places}.plain()
		if i < len(operators) {
			operators[i] = choose(r, []string{"+", "-", "*", "/"})
		}
	}
	problem.text = groupOperands(r, operands, operators)
	return problem
}

// groupOperands joins the operands and puts parentheses around random groups.
func groupOperands(r *rng, operands, operators []string) string {
	if len(operands) == 1 {
		return operands[0]
	}
	split := r.draw(1, len(operands)-1)
	left := groupOperands(r, operands[:split], operators[:split-1])
	right := groupOperands(r, operands[split:], operators[split:])
	text := left + operators[split-1] + right
	if choose(r, []bool{true, false}) {
		return "(" + text + ")"
	}
	return text
}

// Score is 1 if answer is within 10^-max_num_decimal_places of the oracle, with the difference rounded to precision
// digits. Otherwise it is 0.
func (t decimalArithmetic) Score(item Item, answer *string) float64 {
	if answer == nil || item.Answer == nil {
		return 0
	}
	candidate, ok := pyParseDecimal(*answer)
	if !ok || candidate.kind != finite {
		return 0
	}
	oracleText, ok := pyParseDecimal(*item.Answer)
	if !ok {
		return 0
	}
	oracle, ok := oracleText.number()
	if !ok {
		return 0
	}
	// A difference of up to half a unit of the last kept digit above the tolerance rounds down to the tolerance. A
	// tie does too, because the tolerance's last kept digit is even.
	places, precision := t.params.MaxNumDecimalPlaces, t.params.Precision
	bound := decimal{coefficient: bigPow10(precision), exponent: -places - precision}
	bound.coefficient.Add(bound.coefficient, big.NewInt(5))
	exact := decimalContext{precision: 1 << 20}
	low, high := exact.subtract(oracle, bound).text(), exact.add(oracle, bound).text()
	if candidate.compare(low) >= 0 && candidate.compare(high) <= 0 {
		return 1
	}
	return 0
}
