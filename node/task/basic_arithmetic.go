package task

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
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

// Validate names the first key that is out of range, its value and what is allowed. The upper bounds keep the search for divisors short.
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

// undivided are the operators other than /, in the order given.
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
	// Where the library raises (a division by zero) or would not end (divisors of a huge number) the
	// item is drawn anew. Drawing no bracket and no division never fails, so the loop ends.
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

// arithmeticDraw draws one expression whose integers lie within ±(magnitude-1).
type arithmeticDraw struct {
	rng       *rng
	params    basicArithmeticParams
	undivided []string
	magnitude int
}

func (g *arithmeticDraw) question(expression string) string {
	if g.params.FormatStyle == "simple" {
		return "Give the value of " + expression + "."
	}
	return fmt.Sprintf(choose(g.rng, []string{"%s = ?", "Work out %s.", "Find the value of %s.", "Which integer equals %s?"}), expression)
}

// nested is an expression with brackets and precedence, and its value.
func (g *arithmeticDraw) nested(terms int) (string, *big.Int, error) {
	tokens, err := g.build(terms)
	if err != nil {
		return "", nil, err
	}
	text := strings.ReplaceAll(g.join(tokens), "/ 0", "/ 1")
	value, err := evaluateFloor(text)
	return text, value, err
}

func (g *arithmeticDraw) join(tokens []string) string {
	switch g.params.Whitespace {
	case "no_space":
		return strings.Join(tokens, "")
	case "single":
		return strings.Join(tokens, " ")
	}
	var b strings.Builder
	for _, token := range tokens {
		if g.rng.random() < 0.15 {
			b.WriteByte(' ')
		}
		b.WriteString(token)
	}
	return strings.TrimSpace(b.String())
}

// build draws the tokens of count terms: a left part, perhaps in brackets, an operator and the rest.
func (g *arithmeticDraw) build(count int) ([]string, error) {
	left := g.rng.draw(1, count)
	tokens, err := g.leftPart(left)
	right := count - left
	if err != nil || right == 0 {
		return tokens, err
	}
	operator := choose(g.rng, g.params.Operators)
	if operator == "/" {
		return g.divide(tokens, right)
	}
	rest, err := g.build(right)
	return slices.Concat(tokens, []string{operator}, rest), err
}

func (g *arithmeticDraw) leftPart(count int) ([]string, error) {
	if count > 1 && g.rng.random() > 0.5 {
		open := "("
		if g.rng.random() > 0.5 && g.params.AllowNegation {
			open = "-("
		}
		inside, err := g.build(count)
		return slices.Concat([]string{open}, inside, []string{")"}), err
	}
	var tokens []string
	for i := range count {
		tokens = append(tokens, strconv.Itoa(g.rng.draw(1-g.magnitude, g.magnitude-1)))
		if i < count-1 {
			tokens = append(tokens, choose(g.rng, g.undivided))
		}
	}
	return tokens, nil
}

// divide appends / and a part of count terms, made so that the division is mostly exact.
func (g *arithmeticDraw) divide(tokens []string, count int) ([]string, error) {
	text := tokens[len(tokens)-1]
	if text == ")" {
		text = strings.Join(tokens, "")
	}
	dividend, err := evaluateFloor(text)
	if err != nil {
		return nil, err
	}
	tokens = append(tokens, "/")
	if count == 1 {
		divisor, err := g.divisor(dividend)
		return append(tokens, divisor), err
	}
	rest, err := g.build(count - 1)
	if err != nil {
		return nil, err
	}
	end := len(rest) - 1
	if rest[end] != ")" {
		divisor, err := g.divisor(dividend)
		return slices.Concat(tokens, []string{divisor, "+"}, rest), err
	}
	value, err := evaluateFloor(strings.Join(rest, ""))
	if err != nil {
		return nil, err
	}
	correction := big.NewInt(1)
	if value.Sign() != 0 {
		// gcd(0, w) is |w|: a dividend of 0 has every divisor of w.
		gcd := new(big.Int).GCD(nil, nil, new(big.Int).Abs(dividend), new(big.Int).Abs(value))
		divisors, err := pairedDivisors(gcd)
		if err != nil {
			return nil, err
		}
		correction.Sub(choose(g.rng, divisors), value)
	}
	return slices.Concat(tokens, rest[:end], []string{"+", correction.String(), ")"}), nil
}

// divisor is a divisor of dividend, or any positive integer in range where dividend is 0.
func (g *arithmeticDraw) divisor(dividend *big.Int) (string, error) {
	if dividend.Sign() == 0 {
		return strconv.Itoa(g.rng.draw(1, g.magnitude-1)), nil
	}
	divisors, err := pairedDivisors(new(big.Int).Abs(dividend))
	if err != nil {
		return "", err
	}
	return choose(g.rng, divisors).String(), nil
}

// flat is an expression without brackets and its value from left to right, without precedence. Where a
// division is drawn, text and value disagree: the text keeps the constant first drawn. So the library.
func (g *arithmeticDraw) flat(terms int) (string, *big.Int, error) {
	constants := make([]int, terms)
	for i := range constants {
		constants[i] = g.rng.draw(0, g.magnitude)
	}
	tokens := []string{strconv.Itoa(constants[0])}
	for _, constant := range constants[1:] {
		tokens = append(tokens, choose(g.rng, g.params.Operators), strconv.Itoa(constant))
	}
	value := big.NewInt(int64(constants[0]))
	for i, constant := range constants[1:] {
		operand := big.NewInt(int64(constant))
		switch tokens[2*i+1] {
		case "+":
			value.Add(value, operand)
		case "-":
			value.Sub(value, operand)
		case "*":
			value.Mul(value, operand)
		case "/":
			if err := g.divideFlat(value); err != nil {
				return "", nil, err
			}
		}
	}
	return strings.Join(tokens, " "), value, nil
}

// divideFlat divides value by one of its divisors among 2..min(|value|, magnitude)-1, or where there is
// none multiplies it by 1..magnitude-1.
func (g *arithmeticDraw) divideFlat(value *big.Int) error {
	size := new(big.Int).Abs(value)
	var divisors []*big.Int
	if size.Sign() != 0 {
		sorted, err := sortedDivisors(size)
		if err != nil {
			return err
		}
		limit := big.NewInt(int64(g.magnitude))
		if size.Cmp(limit) < 0 {
			limit = size
		}
		for _, d := range sorted {
			if d.Cmp(limit) < 0 && d.Cmp(big.NewInt(1)) > 0 {
				divisors = append(divisors, d)
			}
		}
	}
	if len(divisors) == 0 {
		value.Mul(value, big.NewInt(int64(g.rng.draw(1, g.magnitude-1))))
		return nil
	}
	value.Quo(value, choose(g.rng, divisors))
	return nil
}

func pow10(exponent int) int {
	power := 1
	for range exponent {
		power *= 10
	}
	return power
}
