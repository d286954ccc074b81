package task

import (
	"errors"
	"math/big"
)

var (
	errDivisionByZero = errors.New("division by zero")
	errExpression     = errors.New("malformed expression")
)

// evaluateFloor returns the value of an expression of integers, + - * / and parentheses. Unary minus binds
// tightest, then * and / from left to right, then + and -. Division rounds toward minus infinity, as in the
// library. It reads only text from this package, so that nesting is not bounded.
func evaluateFloor(text string) (*big.Int, error) {
	e := floorEvaluator{text: text}
	value, err := e.sum()
	if err != nil {
		return nil, err
	}
	if e.peek() != 0 {
		return nil, errExpression
	}
	return value, nil
}

type floorEvaluator struct {
	text string
	pos  int
}

// peek returns the next character that is not a blank, 0 at the end.
func (e *floorEvaluator) peek() byte {
	for e.pos < len(e.text) && e.text[e.pos] == ' ' {
		e.pos++
	}
	if e.pos == len(e.text) {
		return 0
	}
	return e.text[e.pos]
}

func (e *floorEvaluator) sum() (*big.Int, error) {
	value, err := e.product()
	for err == nil {
		operator := e.peek()
		if operator != '+' && operator != '-' {
			return value, nil
		}
		e.pos++
		var right *big.Int
		if right, err = e.product(); err != nil {
			break
		}
		if operator == '+' {
			value.Add(value, right)
		} else {
			value.Sub(value, right)
		}
	}
	return nil, err
}

func (e *floorEvaluator) product() (*big.Int, error) {
	value, err := e.factor()
	for err == nil {
		operator := e.peek()
		if operator != '*' && operator != '/' {
			return value, nil
		}
		e.pos++
		var right *big.Int
		if right, err = e.factor(); err != nil {
			break
		}
		if operator == '*' {
			value.Mul(value, right)
		} else {
			value, err = floorDivide(value, right)
		}
	}
	return nil, err
}

func (e *floorEvaluator) factor() (*big.Int, error) {
	switch c := e.peek(); {
	case c == '-':
		e.pos++
		value, err := e.factor()
		if err != nil {
			return nil, err
		}
		return value.Neg(value), nil
	case c == '(':
		e.pos++
		value, err := e.sum()
		if err != nil {
			return nil, err
		}
		if e.peek() != ')' {
			return nil, errExpression
		}
		e.pos++
		return value, nil
	}
	start := e.pos
	for e.pos < len(e.text) && e.text[e.pos] >= '0' && e.text[e.pos] <= '9' {
		e.pos++
	}
	value, ok := new(big.Int).SetString(e.text[start:e.pos], 10)
	if !ok {
		return nil, errExpression
	}
	return value, nil
}

// floorDivide returns a/b rounded toward minus infinity. math/big has only truncated and Euclidean division.
func floorDivide(a, b *big.Int) (*big.Int, error) {
	if b.Sign() == 0 {
		return nil, errDivisionByZero
	}
	quotient, remainder := new(big.Int).QuoRem(a, b, new(big.Int))
	if remainder.Sign() != 0 && remainder.Sign() != b.Sign() {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return quotient, nil
}
