package configs

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Limits of a formula: its length in bytes, and the nesting of parentheses.
const (
	maxFormula      = 500
	maxFormulaDepth = 32
)

// Formula is arithmetic on named numbers: numbers with or without a memory unit (1.5GB, 512MiB), names, + - * / and
// parentheses. Nothing else is evaluated. The zero Formula is empty.
type Formula struct {
	text string
	root *term
}

// term is a number, a name, or an operation on two terms ('~' negates the left one).
type term struct {
	operator    byte // 0: a number or a name
	name        string
	number      float64
	left, right *term
}

// ParseFormula parses a formula. The error describes the mistake and its position, without the formula's text.
func ParseFormula(text string) (Formula, error) {
	if len(text) > maxFormula {
		return Formula{}, fmt.Errorf("a formula has at most %d characters", maxFormula)
	}
	p := formulaParser{text: text}
	root, err := p.sum(0)
	if err != nil {
		return Formula{}, err
	}
	if p.skip(); p.at < len(text) {
		return Formula{}, p.wrong("an operator")
	}
	return Formula{text: strings.TrimSpace(text), root: root}, nil
}

// Empty tells whether there is no formula.
func (f Formula) Empty() bool { return f.root == nil }

func (f Formula) String() string { return f.text }

// Names returns the names in the formula, each once, in alphabetical order.
func (f Formula) Names() []string {
	var names []string
	var walk func(t *term)
	walk = func(t *term) {
		if t == nil {
			return
		}
		if t.name != "" {
			names = append(names, t.name)
		}
		walk(t.left)
		walk(t.right)
	}
	walk(f.root)
	slices.Sort(names)
	return slices.Compact(names)
}

// Eval returns the formula's value, a finite number. A name that isn't in values and a division by zero are errors.
func (f Formula) Eval(values map[string]float64) (float64, error) {
	if f.root == nil {
		return 0, nil
	}
	result, err := f.root.eval(values)
	if err == nil && !units.Finite(result) {
		err = fmt.Errorf("%s is not a finite number", f.text)
	}
	return result, err
}

func (t *term) eval(values map[string]float64) (float64, error) {
	if t.operator == 0 {
		if t.name == "" {
			return t.number, nil
		}
		value, known := values[t.name]
		if !known {
			return 0, fmt.Errorf("%s has no value", t.name)
		}
		return value, nil
	}
	left, err := t.left.eval(values)
	if err != nil || t.operator == '~' {
		return -left, err
	}
	right, err := t.right.eval(values)
	if err != nil {
		return 0, err
	}
	switch t.operator {
	case '+':
		return left + right, nil
	case '-':
		return left - right, nil
	case '*':
		return left * right, nil
	}
	if right == 0 {
		return 0, fmt.Errorf("division by zero")
	}
	return left / right, nil
}

type formulaParser struct {
	text string
	at   int
}

func (p *formulaParser) skip() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take consumes and returns the next character if it is one of characters, else returns 0.
func (p *formulaParser) take(characters string) byte {
	p.skip()
	if p.at < len(p.text) && strings.IndexByte(characters, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *formulaParser) wrong(wanted string) error {
	if p.skip(); p.at >= len(p.text) {
		return fmt.Errorf("the formula ends, but %s was expected", wanted)
	}
	return fmt.Errorf("%s was expected at character %d, before %s", wanted, p.at+1, quote(p.text[p.at:min(len(p.text), p.at+12)]))
}

func (p *formulaParser) sum(depth int) (*term, error) { return p.chain(depth, "+-", p.product) }

func (p *formulaParser) product(depth int) (*term, error) { return p.chain(depth, "*/", p.factor) }

// chain reads parts joined by operators of the same precedence, left-associative.
func (p *formulaParser) chain(depth int, operators string, part func(int) (*term, error)) (*term, error) {
	left, err := part(depth)
	for err == nil {
		operator := p.take(operators)
		if operator == 0 {
			return left, nil
		}
		var right *term
		right, err = part(depth)
		left = &term{operator: operator, left: left, right: right}
	}
	return nil, err
}

func (p *formulaParser) factor(depth int) (*term, error) {
	if depth > maxFormulaDepth {
		return nil, fmt.Errorf("more than %d nested parentheses", maxFormulaDepth)
	}
	switch p.take("(-") {
	case '(':
		inner, err := p.sum(depth + 1)
		if err == nil && p.take(")") == 0 {
			err = p.wrong("a closing parenthesis")
		}
		return inner, err
	case '-':
		inner, err := p.factor(depth + 1)
		return &term{operator: '~', left: inner}, err
	}
	word := p.word()
	switch {
	case word == "":
		return nil, p.wrong("a number, a name or a parenthesis")
	case word[0] == '.' || word[0] >= '0' && word[0] <= '9':
		number, err := parseQuantity(word)
		return &term{number: number}, err
	}
	return &term{name: word}, nil
}

// word reads a run of the characters of numbers and names. 1e9 and 1e+9 are numbers.
func (p *formulaParser) word() string {
	p.skip()
	start := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		exponent := (c == '+' || c == '-') && p.at > start && p.text[start] <= '9' && (p.text[p.at-1] == 'e' || p.text[p.at-1] == 'E')
		if !exponent && c != '.' && c != '_' && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			break
		}
		p.at++
	}
	return p.text[start:p.at]
}

// memoryUnits maps memory units to bytes. Longer suffixes come first.
var memoryUnits = []struct {
	ending string
	bytes  float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

// parseQuantity reads a number with or without a memory unit.
func parseQuantity(text string) (float64, error) {
	number, factor := text, 1.0
	for _, u := range memoryUnits {
		if before, found := strings.CutSuffix(text, u.ending); found {
			number, factor = before, u.bytes
			break
		}
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || strings.ContainsAny(number, "xXpP_iInN") || math.IsInf(value*factor, 0) {
		return 0, fmt.Errorf("%s is not a number (units: kB, MB, GB, KiB, MiB, GiB)", quote(text))
	}
	return value * factor, nil
}
