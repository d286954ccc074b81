package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPropositionalLogicGolden(t *testing.T) {
	task := mustTask(t, defaultPropositional(), newPropositionalLogic)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

// slowParse is the library's parsing rule as in its source, in quadratic time.
func slowParse(text []rune) (*logicNode, error) {
	text = []rune(pyStrip(string(text)))
	if len(text) == 0 {
		return nil, errLogicEmpty
	}
	if len(text) > 1 && text[0] == '(' && text[len(text)-1] == ')' {
		level, valid := 0, true
		for _, r := range text[1 : len(text)-1] {
			switch r {
			case '(':
				level++
			case ')':
				level--
			}
			valid = valid && level >= 0
		}
		if valid && level == 0 {
			return slowParse(text[1 : len(text)-1])
		}
	}
	for _, operator := range []logicOperator{logicIff, logicImplies, logicOr, logicAnd} {
		level := 0
		for i := len(text) - 1; i >= 0; i-- {
			switch {
			case text[i] == ')':
				level++
			case text[i] == '(':
				level--
			case level == 0 && logicOperator(text[i]) == operator:
				left, err := slowParse(text[:i])
				if err != nil {
					return nil, err
				}
				right, err := slowParse(text[i+1:])
				return &logicNode{operator: operator, left: left, right: right}, err
			}
		}
	}
	if logicOperator(text[0]) == logicNot {
		operand, err := slowParse(text[1:])
		return &logicNode{operator: logicNot, left: operand}, err
	}
	return &logicNode{name: string(text)}, nil
}

func slowHolds(n *logicNode, values map[string]bool) bool {
	switch n.operator {
	case logicVariable:
		return values[n.name]
	case logicNot:
		return !slowHolds(n.left, values)
	}
	left, right := slowHolds(n.left, values), slowHolds(n.right, values)
	switch n.operator {
	case logicAnd:
		return left && right
	case logicOr:
		return left || right
	case logicImplies:
		return !left || right
	}
	return left == right
}

// slowFollows enumerates all assignments of the variables.
func slowFollows(premises []*logicNode, conclusion *logicNode) bool {
	index := map[string]int{}
	for _, n := range append(slices.Clone(premises), conclusion) {
		n.variables(index)
	}
	names := slices.Sorted(maps.Keys(index))
	for assignment := range 1 << len(names) {
		values := map[string]bool{}
		for i, name := range names {
			values[name] = assignment>>i&1 == 1
		}
		if !slices.ContainsFunc(premises, func(n *logicNode) bool { return !slowHolds(n, values) }) && !slowHolds(conclusion, values) {
			return false
		}
	}
	return true
}

func TestPropositionalLogicAgainstTruthTables(t *testing.T) {
	params := defaultPropositional()
	params.MaxVars, params.MaxComplexity = 9, 4
	task := mustTask(t, params, newPropositionalLogic)
	draw := logicDraw{rng: newRNG(1, 0), variables: []string{"P", "Q", "x", "y z"}}
	for index := range int64(300) {
		item := task.Item(21, index)
		var m struct{ Premises []string }
		require.NoError(t, json.Unmarshal(item.Metadata, &m))
		var premises []*logicNode
		for _, text := range m.Premises {
			require.Contains(t, item.Question, text)
			premise, err := slowParse([]rune(text))
			require.NoError(t, err)
			require.Equal(t, text, premise.String())
			premises = append(premises, premise)
		}
		for range 3 {
			candidate := draw.expression(1 + int(index)%4)
			want := 0.05
			if slowFollows(premises, candidate) {
				want = 1
				if candidate.operator == logicVariable || slowFollows(nil, candidate) {
					want = 0.25
				}
			}
			answer := candidate.String()
			require.Equal(t, want, task.Score(item, &answer), "%s from %s", answer, m.Premises)
		}
	}
}

// Above 6 variables an assignment's number spans words, and above 12 it spans blocks.
func TestTruthTableOfManyVariables(t *testing.T) {
	var names []string
	for i := range maxLogicVariables + 1 {
		names = append(names, fmt.Sprintf("v%d", i))
		all, _, err := parseLogic(strings.Join(names, " ∧ "), maxLogicSigns)
		require.NoError(t, err)
		last, some := &logicNode{name: names[i]}, &logicNode{operator: logicNot, left: all}
		table, err := newTruthTable(all, last)
		if i == maxLogicVariables {
			require.ErrorIs(t, err, errLogicTooBig)
			break
		}
		require.NoError(t, err)
		require.True(t, table.follows([]*logicNode{all}, last))
		require.Equal(t, i == 0, table.follows([]*logicNode{last}, all))
		require.False(t, table.follows(nil, some), "one assignment in %d is a counterexample", 1<<len(names))
	}
}

// An untrusted sender's text may be deep, wide or full of variables.
func TestPropositionalLogicIsBounded(t *testing.T) {
	task := mustTask(t, defaultPropositional(), newPropositionalLogic)
	wide := "P"
	for range 11 {
		wide = "(" + wide + " ∨ " + wide + ")"
	}
	many := "a"
	for i := range 14 {
		many = fmt.Sprintf("(%s ↔ v%d)", many, i)
	}
	full := "a"
	for range 170 {
		full = "(" + full + " ∧ " + many + ")"
	}
	item := Item{Metadata: json.RawMessage(`{"premises":["P"],"variables":["P"]}`)}
	for name, c := range map[string]struct {
		answer string
		want   float64
	}{
		"wide":           {wide, 1},
		"too wide":       {"(" + wide + " ∧ " + wide + ") ∨ (" + wide + " ∧ " + wide + ")", 0},
		"deep":           {strings.Repeat("(", 800) + "¬¬P" + strings.Repeat(")", 800), 1},
		"too deep":       {strings.Repeat("(", 950) + "P" + strings.Repeat(")", 950), 0},
		"long name":      {strings.Repeat("a ", 500_000), 0.05},
		"15 and P":       {many, 0.05},
		"16 and P":       {many + " ∨ b", 0},
		"full":           {full, 0.05},
		"unmatched":      {strings.Repeat("(", 5000), 0.05},
		"other capital":  {"P ∨ Q", 0},
		"no capital":     {"q → P", 1},
		"empty operand":  {"P ∧", 0},
		"empty brackets": {"P ∨ ()", 0},
	} {
		start := time.Now()
		require.Equal(t, c.want, task.Score(item, &c.answer), name)
		require.Less(t, time.Since(start), 500*time.Millisecond, name)
	}
	long := strings.Repeat("P ∧ ", 200) + "P"
	for _, metadata := range []string{
		`{"premises":"P","variables":["P"]}`, `{"variables":["P"]}`, `{"premises":["P"`, "", `{"premises":[""],"variables":["P"]}`,
		`{"premises":["` + strings.Repeat(long+`","`, 60) + `P"],"variables":["P"]}`,
	} {
		answer := "P"
		require.LessOrEqual(t, task.Score(Item{Metadata: json.RawMessage(metadata)}, &answer), 0.05)
	}
}

func FuzzScorePropositionalLogic(f *testing.F) {
	fuzzScore(f, mustTask(f, defaultPropositional(), newPropositionalLogic))
}

// The fast parser splits as the library's scans do.
func FuzzParseLogic(f *testing.F) {
	for _, c := range goldenScores(f, "propositional_logic") {
		if c.Answer != nil && len(*c.Answer) < 500 {
			f.Add(*c.Answer)
		}
	}
	f.Add(")P∧Q( ∨ (P)→(¬((Q ↔ P)")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 600 {
			return
		}
		text = string([]rune(text))
		want, wantErr := slowParse([]rune(text))
		got, _, err := parseLogic(text, maxLogicSigns)
		require.Equal(t, wantErr, err, "%q", text)
		if err == nil {
			require.Equal(t, want, got, "%q", text)
		}
	})
}
