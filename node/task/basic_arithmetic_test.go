package task

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustTask[P any](t testing.TB, params P, build func(P) (Task, error)) Task {
	t.Helper()
	task, err := build(params)
	require.NoError(t, err)
	return task
}

func TestBasicArithmeticGolden(t *testing.T) {
	task := mustTask(t, defaultBasicArithmetic(), newBasicArithmetic)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

// Go's parser has the same precedence. The answer is its tree's value with floored exact quotients.
func TestBasicArithmeticAgainstGoParser(t *testing.T) {
	task := mustTask(t, defaultBasicArithmetic(), newBasicArithmetic)
	for index := range int64(400) {
		item := task.Item(99, index)
		var m struct{ Expression string }
		require.NoError(t, json.Unmarshal(item.Metadata, &m))
		require.Contains(t, item.Question, m.Expression)
		require.NotContains(t, m.Expression, "/ 0")
		tree, err := parser.ParseExpr(m.Expression)
		require.NoError(t, err)
		require.Equal(t, floorTree(t, tree).String(), *item.Answer, m.Expression)
		require.Equal(t, 1.0, task.Score(item, item.Answer))
		require.Zero(t, task.Score(item, nil))
	}
}

func floorTree(t *testing.T, node ast.Expr) *big.Int {
	switch n := node.(type) {
	case *ast.ParenExpr:
		return floorTree(t, n.X)
	case *ast.UnaryExpr:
		return new(big.Int).Neg(floorTree(t, n.X))
	case *ast.BasicLit:
		value, ok := new(big.Int).SetString(n.Value, 10)
		require.True(t, ok)
		return value
	case *ast.BinaryExpr:
		x, y := floorTree(t, n.X), floorTree(t, n.Y)
		switch n.Op {
		case token.ADD:
			return x.Add(x, y)
		case token.SUB:
			return x.Sub(x, y)
		case token.MUL:
			return x.Mul(x, y)
		}
		exact := new(big.Rat).SetFrac(x, y)
		// A Rat's denominator is positive, for which the Euclidean quotient is the floor.
		return new(big.Int).Div(exact.Num(), exact.Denom())
	}
	t.Fatalf("node %T", node)
	return nil
}

func TestEvaluateFloorRefusesMalformedText(t *testing.T) {
	for _, text := range []string{"", "1 +", "(1", "1)", "1 1", "a", "* 2", "1 / (", "-"} {
		_, err := evaluateFloor(text)
		require.ErrorIs(t, err, errExpression, text)
	}
	for _, text := range []string{"1 / 0", "3 + 4 / (2 - 2)"} {
		_, err := evaluateFloor(text)
		require.ErrorIs(t, err, errDivisionByZero, text)
	}
}

func TestPairedDivisors(t *testing.T) {
	for n := int64(1); n <= 3000; n++ {
		var want []int64
		for i := int64(1); i*i <= n; i++ {
			if n%i == 0 {
				if want = append(want, i); i*i != n {
					want = append(want, n/i)
				}
			}
		}
		got, err := pairedDivisors(big.NewInt(n))
		require.NoError(t, err)
		require.Len(t, got, len(want), n)
		for i, d := range got {
			require.Equal(t, want[i], d.Int64(), n)
		}
	}
}

func TestPrimeFactorsOfLargeNumbers(t *testing.T) {
	for _, factors := range [][]int64{
		{1009, 1009}, {1009, 1009, 1009, 1009}, {999983, 1000003}, {2, 2, 3, 99999989, 2147483647},
		{9999999967, 9999999967}, {1000000007, 9999999967},
	} {
		product := big.NewInt(1)
		for _, f := range factors {
			product.Mul(product, big.NewInt(f))
		}
		got, err := primeFactors(product)
		require.NoError(t, err)
		require.Len(t, got, len(factors))
		for i, f := range got {
			require.Equal(t, factors[i], f.Int64())
		}
	}
	// Two primes of 20 digits: rho gives up.
	hard, _ := new(big.Int).SetString("18446744073709551629", 10)
	other, _ := new(big.Int).SetString("36893488147419103363", 10)
	_, err := primeFactors(hard.Mul(hard, other))
	require.ErrorIs(t, err, errFactor)
}

func TestArithmeticParamsAreRefused(t *testing.T) {
	for _, c := range []struct {
		task   string
		params map[string]any
		want   string
	}{
		{"basic_arithmetic", map[string]any{"max_terms": 1}, "max_terms is 1: it must be from 2 to 20"},
		{"basic_arithmetic", map[string]any{"max_digits": 10}, "max_digits is 10: it must be from 1 to 9"},
		{"basic_arithmetic", map[string]any{"operators": []any{"/"}}, "operators holds only /"},
		{"basic_arithmetic", map[string]any{"operators": []any{}}, "operators is empty"},
		{"basic_arithmetic", map[string]any{"operators": []any{"%"}}, `operators is "%": it must be one of +, -, *, /`},
		{"basic_arithmetic", map[string]any{"format_style": "odd"}, "it must be one of simple, natural"},
		{"basic_arithmetic", map[string]any{"whitespace": "tabs"}, "it must be one of no_space, single, random"},
		{"calendar_arithmetic", map[string]any{"year": 0}, "year is 0: it must be from 101 to 9899"},
		{"calendar_arithmetic", map[string]any{"tasks": []any{"easter"}}, `tasks is "easter"`},
		{"calendar_arithmetic", map[string]any{"tasks": []any{}}, "tasks is empty"},
		{"calendar_arithmetic", map[string]any{"offset_upper_bound": 0}, "offset_upper_bound is 0"},
		{"decimal_arithmetic", map[string]any{"precision": 4}, "precision is 4: it must be from 5 to 50"},
		{"decimal_arithmetic", map[string]any{"min_num_decimal_places": 4}, "max_num_decimal_places is 3: it must be from 4 to 10"},
		{"fraction_simplification", map[string]any{"max_value": 1}, "max_value is 1: it must be from 2"},
		{"fraction_simplification", map[string]any{"styles": []any{"html"}}, `styles is "html"`},
		{"fraction_simplification", map[string]any{"styles": []any{}}, "styles is empty"},
		{"propositional_logic", map[string]any{"max_vars": 12}, "max_vars is 12: it must be from 2 to 11"},
		{"propositional_logic", map[string]any{"min_complexity": 0}, "min_complexity is 0"},
	} {
		_, err := New(c.task, c.params)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := New("basic_arithmetic", map[string]any{"operators": []any{"/"}, "allow_parentheses": false})
	require.NoError(t, err)
}

func TestArithmeticWhitespace(t *testing.T) {
	params := defaultBasicArithmetic()
	params.Whitespace = "no_space"
	params.FormatStyle = "simple"
	item := mustTask(t, params, newBasicArithmetic).Item(5, 5)
	require.Equal(t, 4, strings.Count(item.Question, " "), item.Question)
}

func FuzzScoreBasicArithmetic(f *testing.F) {
	fuzzScore(f, mustTask(f, defaultBasicArithmetic(), newBasicArithmetic))
}
