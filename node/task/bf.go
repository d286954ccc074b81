package task

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

type bfParams struct {
	Difficulty int `mapstructure:"difficulty" yaml:"difficulty" json:"difficulty"`
	// Words are the texts that programs print. The library's list is that of the game Wordle.
	Words []string `mapstructure:"words" yaml:"words" json:"words"`
}

//go:embed words.txt
var bfWordsText string

// Bounds of bf's word list.
const (
	bfMaxWords      = 100_000
	bfMaxWordLength = 64
)

func defaultBF() bfParams { return bfParams{Difficulty: 1, Words: strings.Fields(bfWordsText)} }

// Validate returns an error with the first invalid key, its value and the allowed values.
func (p bfParams) Validate() error {
	if p.Difficulty != 1 {
		return fmt.Errorf("difficulty is %d: only 1 (programs without loops over data) is supported", p.Difficulty)
	}
	if len(p.Words) == 0 || len(p.Words) > bfMaxWords {
		return fmt.Errorf("words has %d entries: it must have from 1 to %d", len(p.Words), bfMaxWords)
	}
	for i, word := range p.Words {
		if word == "" || len(word) > bfMaxWordLength || strings.ContainsFunc(word, notAlphanumeric) {
			return fmt.Errorf("words[%d] is %.80q: it must be 1 to %d ASCII letters and digits", i, word, bfMaxWordLength)
		}
	}
	return nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// bf asks what a Brainf*ck program prints.
type bf struct{ params bfParams }

func newBF(p bfParams) (Task, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p.Words = slices.Clone(p.Words)
	return &bf{p}, nil
}

func (*bf) Name() string { return "bf" }

func (t *bf) Item(seed, index int64) Item {
	r := newRNG(seed, index)
	word := choose(r, t.params.Words)
	program := bfProgram(word)
	question := choose(r, []string{
		"What does this BF (Brainf*ck) program print?\n\n%s\n\nAnswer with its exact output only.",
		"Run this BF (Brainf*ck) code:\n\n%s\n\nAnswer only with what it prints, character for character.",
	})
	return Item{
		Question: fmt.Sprintf(question, program),
		Answer:   &word,
		Metadata: object{
			{"source_dataset", t.Name()},
			{"source_index", index},
			{"bfit_code", bfitCode(word)},
			{"bf_program", program},
			{"difficulty", object{{"difficulty", t.params.Difficulty}}},
		}.encode(),
	}
}

func (*bf) Score(item Item, answer *string) float64 { return baseScoreItem(item, answer) }

// bfitCode is the program in the source language of the library's compiler.
func bfitCode(word string) string { return "\nint main() {\n    print(\"" + word + "\");\n}\n" }

// bfProgram is that compiler's output: one cell moves from each character's code to the next one.
func bfProgram(word string) string {
	var b strings.Builder
	b.WriteString(">[-]>[-]<")
	previous := 0
	for _, code := range []byte(word) {
		b.WriteString(bfAdd(int(code) - previous))
		b.WriteByte('.')
		previous = int(code)
	}
	b.WriteByte('<')
	return b.String()
}

// bfAdd returns code that adds d to the current cell: |d| signs, or a loop over the next cell if that is shorter.
// The loop adds b for a times, and a correction c follows.
func bfAdd(d int) string {
	sign, opposite := "+", "-"
	if d < 0 {
		sign, opposite, d = opposite, sign, -d
	}
	a, b, c := d, 1, 0
	for l, r := 1, d/2-1; r >= l; {
		product := (l + 1) * (r + 1)
		if rest := d - product; l+1+r+1+max(rest, -rest) < a+b+max(c, -c) {
			a, b, c = l+1, r+1, rest
		}
		if product > d {
			r--
		} else {
			l++
		}
	}
	correction := strings.Repeat(sign, max(c, 0)) + strings.Repeat(opposite, max(-c, 0))
	looped := ">" + strings.Repeat("+", a) + "[<" + strings.Repeat(sign, b) + ">-]<" + correction
	if len(looped) < d {
		return looped
	}
	return strings.Repeat(sign, d)
}
