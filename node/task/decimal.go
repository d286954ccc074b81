package task

import (
	"fmt"
	"math/big"
	"strings"
)

// decimal is (-1)^negative · coefficient · 10^exponent, with coefficient >= 0. Zeros have a sign and an
// exponent, as in the General Decimal Arithmetic specification that Python's decimal follows. Values are
// immutable.
type decimal struct {
	negative    bool
	coefficient *big.Int
	exponent    int
}

// decimalContext rounds every result to precision digits, half to even. Exponents are not limited, because the
// numbers of one item stay far from Python's limits.
type decimalContext struct{ precision int }

var bigTen = big.NewInt(10)

func bigPow10(exponent int) *big.Int {
	return new(big.Int).Exp(bigTen, big.NewInt(int64(exponent)), nil)
}

// digits is the number of decimal digits of the coefficient. 0 has one digit.
func (d decimal) digits() int { return len(d.coefficient.Append(nil, 10)) }

// signed is the coefficient with d's sign.
func (d decimal) signed() *big.Int {
	signed := new(big.Int).Set(d.coefficient)
	if d.negative {
		signed.Neg(signed)
	}
	return signed
}

func (d decimal) negate() decimal {
	return decimal{!d.negative, d.coefficient, d.exponent}
}

// round keeps precision digits. If a carry adds a digit (99999.5), it drops the trailing zero.
func (c decimalContext) round(d decimal) decimal {
	for excess := d.digits() - c.precision; excess > 0; excess = d.digits() - c.precision {
		unit := bigPow10(excess)
		quotient, remainder := new(big.Int).QuoRem(d.coefficient, unit, new(big.Int))
		half := remainder.Lsh(remainder, 1).Cmp(unit)
		if half > 0 || half == 0 && quotient.Bit(0) == 1 {
			quotient.Add(quotient, big.NewInt(1))
		}
		d = decimal{d.negative, quotient, d.exponent + excess}
	}
	return d
}

// add returns a+b, with the smaller exponent before rounding. A sum of zero is positive unless both are negative.
func (c decimalContext) add(a, b decimal) decimal {
	exponent := min(a.exponent, b.exponent)
	sum := new(big.Int).Mul(a.signed(), bigPow10(a.exponent-exponent))
	sum.Add(sum, new(big.Int).Mul(b.signed(), bigPow10(b.exponent-exponent)))
	negative := sum.Sign() < 0 || sum.Sign() == 0 && a.negative && b.negative
	return c.round(decimal{negative, sum.Abs(sum), exponent})
}

func (c decimalContext) subtract(a, b decimal) decimal { return c.add(a, b.negate()) }

func (c decimalContext) multiply(a, b decimal) decimal {
	product := new(big.Int).Mul(a.coefficient, b.coefficient)
	return c.round(decimal{a.negative != b.negative, product, a.exponent + b.exponent})
}

// divide returns a/b. An exact quotient has the exponent nearest to a.exponent-b.exponent that precision digits
// allow. Any other quotient is rounded to precision digits.
func (c decimalContext) divide(a, b decimal) (decimal, error) {
	if b.coefficient.Sign() == 0 {
		return decimal{}, errDivisionByZero
	}
	negative, ideal := a.negative != b.negative, a.exponent-b.exponent
	if a.coefficient.Sign() == 0 {
		return decimal{negative, new(big.Int), ideal}, nil
	}
	// shift makes the integer quotient at least precision+1 digits long, so that a last digit other than 0 and 5
	// can represent any remainder.
	shift := max(0, b.digits()-a.digits()+c.precision+1)
	dividend := new(big.Int).Mul(a.coefficient, bigPow10(shift))
	quotient, remainder := new(big.Int).QuoRem(dividend, b.coefficient, new(big.Int))
	exponent := ideal - shift
	if remainder.Sign() != 0 {
		if last := new(big.Int).Rem(quotient, big.NewInt(5)); last.Sign() == 0 {
			quotient.Add(quotient, big.NewInt(1))
		}
		return c.round(decimal{negative, quotient, exponent}), nil
	}
	for exponent < ideal {
		shorter, digit := new(big.Int).QuoRem(quotient, bigTen, new(big.Int))
		if digit.Sign() != 0 {
			break
		}
		quotient, exponent = shorter, exponent+1
	}
	return c.round(decimal{negative, quotient, exponent}), nil
}

// String is Python's str: plain notation if the exponent is at most 0 and the first digit is at 10^-6 or above,
// otherwise scientific.
func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	digits := d.coefficient.String()
	adjusted := d.exponent + len(digits) - 1
	if d.exponent <= 0 && adjusted >= -6 {
		return sign + d.plain()
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%s%sE%+d", sign, digits, adjusted)
}

// plain formats d without sign and without scientific notation. d's exponent must be at most 0.
func (d decimal) plain() string {
	digits := d.coefficient.String()
	if missing := 1 - d.exponent - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if d.exponent == 0 {
		return digits
	}
	point := len(digits) + d.exponent
	return digits[:point] + "." + digits[point:]
}
