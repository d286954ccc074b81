package task

import (
	"math/big"
	"strings"
)

// evaluateDecimal returns the value of an expression of unsigned decimals, + - * / and parentheses, without blanks,
// with the usual precedence.
func evaluateDecimal(text string, context decimalContext) (decimal, error) {
	e := decimalEvaluator{text: text, context: context}
	value, err := e.sum()
	if err == nil && e.pos != len(text) {
		err = errExpression
	}
	return value, err
}

type decimalEvaluator struct {
	text    string
	pos     int
	context decimalContext
}

// next consumes and returns the next character if it is in set, else 0.
func (e *decimalEvaluator) next(set string) byte {
	if e.pos == len(e.text) || strings.IndexByte(set, e.text[e.pos]) < 0 {
		return 0
	}
	e.pos++
	return e.text[e.pos-1]
}

func (e *decimalEvaluator) sum() (decimal, error) {
	value, err := e.product()
	for err == nil {
		operator := e.next("+-")
		if operator == 0 {
			break
		}
		var right decimal
		if right, err = e.product(); operator == '+' && err == nil {
			value = e.context.add(value, right)
		} else if err == nil {
			value = e.context.subtract(value, right)
		}
	}
	return value, err
}

func (e *decimalEvaluator) product() (decimal, error) {
	value, err := e.factor()
	for err == nil {
		operator := e.next("*/")
		if operator == 0 {
			break
		}
		var right decimal
		if right, err = e.factor(); operator == '*' && err == nil {
			value = e.context.multiply(value, right)
		} else if err == nil {
			value, err = e.context.divide(value, right)
		}
	}
	return value, err
}

func (e *decimalEvaluator) factor() (decimal, error) {
	if e.next("(") != 0 {
		value, err := e.sum()
		if err == nil && e.next(")") == 0 {
			err = errExpression
		}
		return value, err
	}
	start := e.pos
	for e.next("0123456789.") != 0 {
	}
	return literalDecimal(e.text[start:e.pos])
}

// literalDecimal reads a literal as the library does, through a binary float: it drops trailing zeros, but a
// literal with a point keeps one decimal place.
func literalDecimal(literal string) (decimal, error) {
	whole, fraction, hasPoint := strings.Cut(literal, ".")
	if hasPoint {
		if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
			fraction = "0"
		}
	}
	coefficient, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal{}, errExpression
	}
	return decimal{coefficient: coefficient, exponent: -len(fraction)}, nil
}
