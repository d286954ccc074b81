package task

import (
	"errors"
	"slices"
	"strings"
)

// logicOperator is 0 for a variable, or one of the five operator signs.
type logicOperator rune

const (
	logicVariable logicOperator = 0
	logicAnd      logicOperator = '∧'
	logicOr       logicOperator = '∨'
	logicNot      logicOperator = '¬'
	logicImplies  logicOperator = '→'
	logicIff      logicOperator = '↔'
)

// logicOperators lists the operators in the library's order, which the draws use.
func logicOperators() []logicOperator {
	return []logicOperator{logicAnd, logicOr, logicNot, logicImplies, logicIff}
}

// logicNode is a variable, ¬left, or left operator right.
type logicNode struct {
	operator    logicOperator
	name        string
	left, right *logicNode
}

// String writes every operator except ¬ with parentheses, as the library prints premises.
func (n *logicNode) String() string {
	switch n.operator {
	case logicVariable:
		return n.name
	case logicNot:
		return "¬" + n.left.String()
	}
	return "(" + n.left.String() + " " + string(n.operator) + " " + n.right.String() + ")"
}

// complexity is the number of variables and operators.
func (n *logicNode) complexity() int {
	switch n.operator {
	case logicVariable:
		return 1
	case logicNot:
		return 1 + n.left.complexity()
	}
	return 1 + n.left.complexity() + n.right.complexity()
}

// Limits on an untrusted sender's expression. The library's recursion ends at about 900 levels. Its cost doubles
// with every variable, without a limit.
const (
	maxLogicDepth     = 900
	maxLogicSigns     = 1 << 13
	maxLogicVariables = 16
)

var (
	errLogicEmpty  = errors.New("empty expression")
	errLogicTooBig = errors.New("expression too deep or too large")
)

// logicSign is an operator or a parenthesis at a byte offset.
type logicSign struct {
	sign rune
	at   int
}

// logicParser finds the library's splits in near linear time. Sign i splits signs[a:b] if parentheses balance from
// i to b, that is, if depth[i] == depth[b].
type logicParser struct {
	text  string
	signs []logicSign
	depth []int // opened minus closed parentheses before each sign, and at the end
	// lower[i] is the first sign after i whose depth is below depth[i].
	lower []int
	// places holds the indices of an operator's signs at a depth, ascending.
	places map[logicPlace][]int
}

type logicPlace struct {
	operator rune
	depth    int
}

// parseLogic reads text by the library's rules. It removes outer parentheses. It splits at the last ↔ outside
// parentheses, else →, else ∨, else ∧. Then it reads a leading ¬. Any other text is the name of a variable. budget
// is the number of signs allowed, and parseLogic returns the rest of it.
func parseLogic(text string, budget int) (*logicNode, int, error) {
	p := logicParser{text: text, depth: []int{0}, places: map[logicPlace][]int{}}
	for at, r := range text {
		depth := p.depth[len(p.signs)]
		switch logicOperator(r) {
		case '(':
			depth++
		case ')':
			depth--
		case logicAnd, logicOr, logicImplies, logicIff:
			place := logicPlace{r, depth}
			p.places[place] = append(p.places[place], len(p.signs))
		case logicNot:
		default:
			continue
		}
		if len(p.signs) == budget {
			return nil, 0, errLogicTooBig
		}
		p.signs, p.depth = append(p.signs, logicSign{r, at}), append(p.depth, depth)
	}
	p.findLower()
	root, err := p.parse(0, len(text), 0, len(p.signs), 1)
	return root, budget - len(p.signs), err
}

func (p *logicParser) findLower() {
	p.lower = make([]int, len(p.depth))
	var waiting []int // signs waiting for a lower depth, with ascending depths
	for i, depth := range p.depth {
		for len(waiting) > 0 && p.depth[waiting[len(waiting)-1]] > depth {
			p.lower[waiting[len(waiting)-1]] = i
			waiting = waiting[:len(waiting)-1]
		}
		waiting = append(waiting, i)
	}
	for _, i := range waiting {
		p.lower[i] = len(p.depth)
	}
}

// parse reads text[l:r], which holds signs[a:b], at a nesting level that starts at 1.
func (p *logicParser) parse(l, r, a, b, level int) (*logicNode, error) {
	if level > maxLogicDepth {
		return nil, errLogicTooBig
	}
	l = r - len(strings.TrimLeftFunc(p.text[l:r], pyIsSpace))
	r = l + len(strings.TrimRightFunc(p.text[l:r], pyIsSpace))
	if l == r {
		return nil, errLogicEmpty
	}
	if p.enclosed(l, r, a, b) {
		return p.parse(l+1, r-1, a+1, b-1, level+1)
	}
	for _, operator := range []logicOperator{logicIff, logicImplies, logicOr, logicAnd} {
		i, found := p.split(operator, a, b)
		if !found {
			continue
		}
		at := p.signs[i].at
		left, err := p.parse(l, at, a, i, level+1)
		if err != nil {
			return nil, err
		}
		right, err := p.parse(at+len(string(operator)), r, i+1, b, level+1)
		return &logicNode{operator: operator, left: left, right: right}, err
	}
	if a < b && p.signs[a] == (logicSign{rune(logicNot), l}) {
		operand, err := p.parse(l+len(string(logicNot)), r, a+1, b, level+1)
		return &logicNode{operator: logicNot, left: operand}, err
	}
	return &logicNode{name: p.text[l:r]}, nil
}

// enclosed reports whether text[l:r] is ( and ) around balanced parentheses.
func (p *logicParser) enclosed(l, r, a, b int) bool {
	return b-a >= 2 && p.signs[a] == logicSign{'(', l} && p.signs[b-1] == logicSign{')', r - 1} &&
		p.depth[a+1] == p.depth[b-1] && p.lower[a+1] >= b
}

// split returns the last of signs[a:b] that is operator outside parentheses, searching back from b.
func (p *logicParser) split(operator logicOperator, a, b int) (int, bool) {
	places := p.places[logicPlace{rune(operator), p.depth[b]}]
	after, _ := slices.BinarySearch(places, b)
	if after == 0 || places[after-1] < a {
		return 0, false
	}
	return places[after-1], true
}

// variables adds the names in n to names.
func (n *logicNode) variables(names map[string]int) {
	switch n.operator {
	case logicVariable:
		if _, known := names[n.name]; !known {
			names[n.name] = len(names)
		}
	case logicNot:
		n.left.variables(names)
	default:
		n.left.variables(names)
		n.right.variables(names)
	}
}

// hasForeignCapital reports whether text has a letter A-Z that is not in variables.
func hasForeignCapital(text string, variables []string) bool {
	var own [26]bool
	for _, name := range variables {
		if len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' {
			own[name[0]-'A'] = true
		}
	}
	return strings.ContainsFunc(text, func(r rune) bool {
		return r >= 'A' && r <= 'Z' && !own[r-'A']
	})
}
