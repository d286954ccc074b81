package task

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// arithmeticDraw draws an expression with integers within ±(magnitude-1).
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

// nested returns an expression with parentheses and precedence, and its value.
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

// build draws the tokens of count terms: a left part, perhaps in parentheses, an operator and the rest.
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

// divide appends a division sign and count more terms. It chooses the divisor so that most divisions are exact.
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

// divisor returns a divisor of dividend, or any positive integer in range if dividend is 0.
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

// flat returns an expression without parentheses, and its value from left to right, without precedence. With a
// division, text and value disagree, because the text keeps the constant that was drawn first. The library does the
// same.
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

// divideFlat divides value by one of its divisors among 2..min(|value|, magnitude)-1. If there is none, it
// multiplies value by 1..magnitude-1.
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
