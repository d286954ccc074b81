package task

import (
	"cmp"
	"fmt"
	"strings"
)

// propositionalParams are the library's parameters of propositional_logic.
type propositionalParams struct {
	MinVars       int `mapstructure:"min_vars" yaml:"min_vars" json:"min_vars"`
	MaxVars       int `mapstructure:"max_vars" yaml:"max_vars" json:"max_vars"`
	MinStatements int `mapstructure:"min_statements" yaml:"min_statements" json:"min_statements"`
	MaxStatements int `mapstructure:"max_statements" yaml:"max_statements" json:"max_statements"`
	// MinComplexity and MaxComplexity bound the depth of a premise. A bare variable has depth 1.
	MinComplexity int `mapstructure:"min_complexity" yaml:"min_complexity" json:"min_complexity"`
	MaxComplexity int `mapstructure:"max_complexity" yaml:"max_complexity" json:"max_complexity"`
}

func defaultPropositional() propositionalParams {
	return propositionalParams{
		MinVars: 2, MaxVars: 4, MinStatements: 2, MaxStatements: 4, MinComplexity: 1, MaxComplexity: 3,
	}
}

// Validate returns an error with the first invalid key, its value and the allowed values. Variables run from P to
// at most Z. The bounds keep premises within the limits of the verifier.
func (p propositionalParams) Validate() error {
	return cmp.Or(
		checkRange("min_vars", p.MinVars, 1, 11),
		checkRange("max_vars", p.MaxVars, max(p.MinVars, 1), 11),
		checkRange("min_statements", p.MinStatements, 1, 20),
		checkRange("max_statements", p.MaxStatements, max(p.MinStatements, 1), 20),
		checkRange("min_complexity", p.MinComplexity, 1, 8),
		checkRange("max_complexity", p.MaxComplexity, max(p.MinComplexity, 1), 8),
	)
}

// propositionalLogic asks for any conclusion that follows from some premises. Its items have no answer.
type propositionalLogic struct{ params propositionalParams }

func newPropositionalLogic(params propositionalParams) (Task, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	return propositionalLogic{params}, nil
}

func (propositionalLogic) Name() string { return "propositional_logic" }

func (t propositionalLogic) Item(seed, index int64) Item {
	g := logicDraw{rng: newRNG(seed, index)}
	for i := range g.rng.draw(t.params.MinVars, t.params.MaxVars) {
		g.variables = append(g.variables, string(rune('P'+i)))
	}
	premises := make([]*logicNode, g.rng.draw(t.params.MinStatements, t.params.MaxStatements))
	texts := make([]string, len(premises))
	var question strings.Builder
	question.WriteString("Premises:\n")
	for i := range premises {
		premises[i] = g.expression(g.rng.draw(t.params.MinComplexity, t.params.MaxComplexity))
		texts[i] = premises[i].String()
		fmt.Fprintf(&question, "%d. %s\n", i+1, texts[i])
	}
	question.WriteString("State one conclusion that follows. Symbols: ∧ and, ∨ or, → implies, ↔ iff, ¬ not.")
	conclusion := g.conclusion(premises)
	return Item{
		Question: question.String(),
		Metadata: object{
			{"source_dataset", t.Name()}, {"source_index", index},
			{"premises", texts}, {"variables", g.variables},
			{"complexity", conclusion.complexity()}, {"example_answer", conclusion.String()},
			{"difficulty", object{
				{"vars", []int{t.params.MinVars, t.params.MaxVars}},
				{"statements", []int{t.params.MinStatements, t.params.MaxStatements}},
				{"complexity", []int{t.params.MinComplexity, t.params.MaxComplexity}},
			}},
		}.encode(),
	}
}

type logicDraw struct {
	rng       *rng
	variables []string
}

func (g logicDraw) expression(depth int) *logicNode {
	if depth <= 1 {
		return &logicNode{name: choose(g.rng, g.variables)}
	}
	node := &logicNode{operator: choose(g.rng, logicOperators())}
	node.left = g.expression(depth - 1)
	if node.operator != logicNot {
		node.right = g.expression(depth - 1)
	}
	return node
}

// conclusion draws an expression of one operator that follows from the premises and is not a tautology. After 100 draws
// it returns the first variable, as the library does, even if that does not follow from the premises.
func (g logicDraw) conclusion(premises []*logicNode) *logicNode {
	for range 100 {
		candidate := g.expression(2)
		if candidate.operator == logicImplies {
			candidate = &logicNode{
				operator: logicOr, left: &logicNode{operator: logicNot, left: candidate.left}, right: candidate.right,
			}
		}
		if follows, trivial, err := judgeLogic(premises, candidate); err == nil && follows && !trivial {
			return candidate
		}
	}
	return &logicNode{name: g.variables[0]}
}

// judgeLogic reports whether conclusion follows from premises, and whether it is trivial: a bare variable or a
// tautology.
func judgeLogic(premises []*logicNode, conclusion *logicNode) (follows, trivial bool, err error) {
	table, err := newTruthTable(append([]*logicNode{conclusion}, premises...)...)
	if err != nil {
		return false, false, err
	}
	follows = table.follows(premises, conclusion)
	trivial = conclusion.operator == logicVariable || follows && table.follows(nil, conclusion)
	return follows, trivial, nil
}

// Score is 1 for a conclusion that follows, 0.25 if it is trivial and 0.05 for one that does not follow. It is 0
// for an answer that cannot be parsed or has a capital letter that is not a variable of the item. Unlike the
// library it is also 0 above maxLogicVariables variables or maxLogicSigns operators and parentheses, where the
// library would take too long.
func (propositionalLogic) Score(item Item, answer *string) float64 {
	var m struct {
		Premises  []string `json:"premises"`
		Variables []string `json:"variables"`
	}
	if answer == nil || readMetadata(item, &m) != nil || hasForeignCapital(*answer, m.Variables) {
		return 0
	}
	conclusion, _, err := parseLogic(*answer, maxLogicSigns)
	if err != nil {
		return 0
	}
	premises, budget := make([]*logicNode, len(m.Premises)), maxLogicSigns
	for i, text := range m.Premises {
		if premises[i], budget, err = parseLogic(text, budget); err != nil {
			return 0
		}
	}
	follows, trivial, err := judgeLogic(premises, conclusion)
	switch {
	case err != nil:
		return 0
	case !follows:
		return 0.05
	case trivial:
		return 0.25
	}
	return 1
}
