package task

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type arc1DParams struct {
	MinSize  int `mapstructure:"min_size" yaml:"min_size" json:"min_size"`
	MaxSize  int `mapstructure:"max_size" yaml:"max_size" json:"max_size"`
	NumTrain int `mapstructure:"num_train" yaml:"num_train" json:"num_train"`
}

func defaultArc1D() arc1DParams { return arc1DParams{MinSize: 10, MaxSize: 30, NumTrain: 3} }

// Bounds of arc_1d. Below 8 cells some rules never yield a pair. On long rows two rules rarely do.
// recolor_blocks_from_palette has more blocks than colors: above 40 cells the library may search forever.
// paint_biggest_block has no single longest block.
const (
	arcMinSize  = 8
	arcMaxSize  = 64
	arcMaxTrain = 100
)

// Validate returns an error with the first invalid key, its value and the allowed values.
func (p arc1DParams) Validate() error {
	return cmp.Or(
		checkRange("min_size", p.MinSize, arcMinSize, arcMaxSize),
		checkRange("max_size", p.MaxSize, p.MinSize, arcMaxSize),
		checkRange("num_train", p.NumTrain, 1, arcMaxTrain),
	)
}

// arc1D asks for the output row of a hidden rule, shown by examples.
type arc1D struct {
	params arc1DParams
	rules  []arcNamedRule
}

func newArc1D(p arc1DParams) (Task, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &arc1D{params: p, rules: arcRules()}, nil
}

func (*arc1D) Name() string { return "arc_1d" }

func (t *arc1D) Item(seed, index int64) Item {
	r := newRNG(seed, index)
	rule := choose(r, t.rules)
	n := r.draw(t.params.MinSize, t.params.MaxSize)

	var question strings.Builder
	question.WriteString("One rule turns every input row into its output row.\n")
	examples := make([]object, t.params.NumTrain)
	for i := range examples {
		pair := drawPair(r, rule.rule, n)
		examples[i] = pair.object()
		fmt.Fprintf(&question, "\nExample %d:\nInput: %s\nOutput: %s\n", i+1, pair.input.text(), pair.output.text())
	}
	test := drawPair(r, rule.rule, n)
	answer := test.output.text()
	fmt.Fprintf(&question, "\nAnswer with the output row for this one.\nInput: %s", test.input.text())
	return Item{
		Question: question.String(),
		Answer:   &answer,
		Metadata: object{
			{"source_dataset", t.Name()},
			{"source_index", index},
			{"task_name", rule.name},
			{"size", n},
			{"train_examples", examples},
			{"test_example", test.object()},
			{"difficulty", object{{"size", []int{t.params.MinSize, t.params.MaxSize}}}},
		}.encode(),
	}
}

func (*arc1D) Score(item Item, answer *string) float64 { return baseScoreItem(item, answer) }

// arcRow is a row of cells; 0 is empty, 1..9 are colors.
type arcRow []int

func (row arcRow) paint(from, length, color int) {
	for i := from; i < from+length; i++ {
		row[i] = color
	}
}

// pack paints blocks of the given lengths from cell 0 on, one empty cell after each.
func (row arcRow) pack(lengths []int, color int) {
	at := 0
	for _, length := range lengths {
		row.paint(at, length, color)
		at += length + 1
	}
}

func (row arcRow) text() string {
	b := make([]byte, 0, 2*len(row))
	for i, cell := range row {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(cell), 10)
	}
	return string(b)
}

// arcPair is an example: two rows of n cells.
type arcPair struct{ input, output arcRow }

func blankPair(n int) arcPair { return arcPair{make(arcRow, n), make(arcRow, n)} }

func (p arcPair) object() object {
	return object{{"input", []int(p.input)}, {"output", []int(p.output)}}
}

// arcRule draws a pair of rows of n cells. It returns false if the draws do not make a valid pair.
type arcRule func(r *rng, n int) (arcPair, bool)

type arcNamedRule struct {
	name string
	rule arcRule
}

// drawPair calls rule until it succeeds, as the library does. Within the parameters' bounds every rule succeeds at
// least once in 20 calls on average, so that the loop ends.
func drawPair(r *rng, rule arcRule, n int) arcPair {
	for {
		if pair, ok := rule(r, n); ok {
			return pair
		}
	}
}

// mirrored returns the mirror image of rule.
func mirrored(rule arcRule) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		pair, ok := rule(r, n)
		slices.Reverse(pair.input)
		slices.Reverse(pair.output)
		return pair, ok
	}
}

// inverted swaps input and output.
func inverted(rule arcRule) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		pair, ok := rule(r, n)
		return arcPair{pair.output, pair.input}, ok
	}
}
