package task

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestDecimalArithmeticGolden(t *testing.T) {
	task := mustTask(t, defaultDecimal(), newDecimalArithmetic)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

// The same expressions in exact fractions, each step rounded to 5 digits by comparison with the two neighbors.
func TestDecimalArithmeticAgainstFractions(t *testing.T) {
	task := mustTask(t, defaultDecimal(), newDecimalArithmetic)
	for index := range int64(500) {
		item := task.Item(77, index)
		text, _, found := strings.Cut(item.Question, " = ?")
		require.True(t, found)
		tree, err := parser.ParseExpr(text)
		require.NoError(t, err)
		answer, ok := new(big.Rat).SetString(*item.Answer)
		require.True(t, ok)
		require.Zero(t, roundedTree(t, tree, 5).Cmp(answer), "%s = %s", text, *item.Answer)
		require.Equal(t, 1.0, task.Score(item, item.Answer))
	}
}

func roundedTree(t *testing.T, node ast.Expr, precision int) *big.Rat {
	switch n := node.(type) {
	case *ast.ParenExpr:
		return roundedTree(t, n.X, precision)
	case *ast.BasicLit:
		value, ok := new(big.Rat).SetString(n.Value)
		require.True(t, ok)
		return value
	case *ast.BinaryExpr:
		x, y := roundedTree(t, n.X, precision), roundedTree(t, n.Y, precision)
		switch n.Op {
		case token.ADD:
			x.Add(x, y)
		case token.SUB:
			x.Sub(x, y)
		case token.MUL:
			x.Mul(x, y)
		default:
			x.Quo(x, y)
		}
		return roundHalfEven(x, precision)
	}
	t.Fatalf("node %T", node)
	return nil
}

func roundHalfEven(x *big.Rat, precision int) *big.Rat {
	if x.Sign() == 0 {
		return x
	}
	low := new(big.Rat).SetInt(bigPow10(precision - 1))
	high := new(big.Rat).SetInt(bigPow10(precision))
	ten := big.NewRat(10, 1)
	size, scale := new(big.Rat).Abs(x), big.NewRat(1, 1)
	for size.Cmp(low) < 0 {
		size.Mul(size, ten)
		scale.Mul(scale, ten)
	}
	for size.Cmp(high) >= 0 {
		size.Quo(size, ten)
		scale.Quo(scale, ten)
	}
	floor := new(big.Int).Div(size.Num(), size.Denom())
	rest := new(big.Rat).Sub(size, new(big.Rat).SetInt(floor))
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && floor.Bit(0) == 1 {
		floor.Add(floor, big.NewInt(1))
	}
	result := new(big.Rat).Quo(new(big.Rat).SetInt(floor), scale)
	if x.Sign() < 0 {
		result.Neg(result)
	}
	return result
}

func mustDecimal(t *testing.T, text string) decimal {
	t.Helper()
	parsed, ok := pyParseDecimal(text)
	require.True(t, ok, text)
	value, ok := parsed.number()
	require.True(t, ok, text)
	return value
}

// Results of CPython's decimal with a precision of 5.
func TestDecimalContextLikePython(t *testing.T) {
	context := decimalContext{5}
	for _, c := range []struct{ a, operator, b, want string }{
		{"6.000", "/", "0.008", "750"}, {"5.1", "/", "3", "1.7"}, {"0.6320", "/", "2", "0.3160"},
		{"30.00", "/", "0.3", "100.0"}, {"-6.562", "/", "0.0001", "-6.562E+4"}, {"1", "/", "3", "0.33333"},
		{"2", "/", "3", "0.66667"}, {"-0.00300", "/", "0.4", "-0.0075"}, {"0.0", "/", "3", "0.0"},
		{"0.0002", "*", "0.0000", "0E-8"}, {"-0.98604", "*", "0.000", "-0E-8"}, {"99999", "+", "0.5", "1.0000E+5"},
		{"99998", "+", "0.5", "99998"}, {"1.00", "-", "1.000", "0.000"}, {"1E+3", "*", "1E+3", "1E+6"},
		{"12345", "*", "10", "1.2345E+5"}, {"0.00001", "*", "0.1", "0.000001"}, {"0.000001", "*", "0.1", "1E-7"},
		{"1", "/", "1E+9", "1E-9"}, {"100000", "/", "7", "14286"}, {"-0.0", "+", "-0.00", "-0.00"},
	} {
		a, b := mustDecimal(t, c.a), mustDecimal(t, c.b)
		var got decimal
		switch c.operator {
		case "+":
			got = context.add(a, b)
		case "-":
			got = context.subtract(a, b)
		case "*":
			got = context.multiply(a, b)
		default:
			var err error
			got, err = context.divide(a, b)
			require.NoError(t, err)
		}
		require.Equal(t, c.want, got.String(), "%s %s %s", c.a, c.operator, c.b)
	}
	_, err := context.divide(mustDecimal(t, "1"), mustDecimal(t, "0.0"))
	require.ErrorIs(t, err, errDivisionByZero)
	_, err = evaluateDecimal("1.5+(2", context)
	require.ErrorIs(t, err, errExpression)
}

// The bound is inclusive, and numbers too large for arithmetic still compare.
func TestDecimalArithmeticTolerance(t *testing.T) {
	task := mustTask(t, defaultDecimal(), newDecimalArithmetic)
	zeros := strings.Repeat("0", 500)
	for _, c := range []struct {
		oracle, answer string
		want           float64
	}{
		{"2.5", "2.50100005", 1}, {"2.5", "2.50100005" + zeros + "1", 0}, {"2.5", "2.49899995", 1},
		{"2.5", "2.49899994" + strings.Repeat("9", 500), 0}, {"2.5", "25" + zeros + "e-501", 1},
		{"0.000", "1e-999999999999", 1}, {"0.000", "-1e-999999999999", 1}, {"0.000", "1e999999999999", 0},
		{"0.000", "1e-9999999999999999999999", 0}, {"0.000", "1e99999999999999999999", 0}, {"2.5", "nan", 0},
		{"2.5", "-inf", 0}, {"2.5", "+2_._5", 1}, {"2.5", "٢.٥", 1}, {"2.5", "2,5", 0}, {"2.5", ".", 0}, {"2.5", "", 0},
		{"inf", "inf", 0}, {"nan", "nan", 0}, {"2.5", "2.5e", 0}, {"2.5", "2.5e+", 0}, {"2.5", "2.5e+0", 1},
		{"1e99999", "1e99999", 0},
	} {
		got := task.Score(Item{Answer: &c.oracle}, &c.answer)
		require.Equal(t, c.want, got, "%s against %s", c.answer[:min(len(c.answer), 20)], c.oracle)
	}
	require.Zero(t, task.Score(Item{}, new(string)))
}

func FuzzScoreDecimalArithmetic(f *testing.F) {
	fuzzScore(f, mustTask(f, defaultDecimal(), newDecimalArithmetic))
}

// For plain ASCII numbers of moderate size the order equals that of exact fractions.
func FuzzDecimalCompare(f *testing.F) {
	f.Add("1.50", "15e-1")
	f.Add("-0", "0.000")
	f.Add("9e99", "-.5E+3")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := pyParseDecimal(a)
		y, okY := pyParseDecimal(b)
		if !okX || !okY || x.kind != finite || y.kind != finite {
			return
		}
		valueX, okX := x.number()
		valueY, okY := y.number()
		if !okX || !okY || !utf8.ValidString(a+b) {
			return
		}
		fraction := func(d decimal) *big.Rat {
			r, ok := new(big.Rat).SetString(fmt.Sprintf("%se%d", d.signed(), d.exponent))
			require.True(t, ok)
			return r
		}
		require.Equal(t, fraction(valueX).Cmp(fraction(valueY)), x.compare(y), "%q and %q", a, b)
	})
}
