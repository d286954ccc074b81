package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// fractionParams are the library's parameters of fraction_simplification.
type fractionParams struct {
	MinValue  int      `mapstructure:"min_value" yaml:"min_value" json:"min_value"`
	MaxValue  int      `mapstructure:"max_value" yaml:"max_value" json:"max_value"`
	MinFactor int      `mapstructure:"min_factor" yaml:"min_factor" json:"min_factor"`
	MaxFactor int      `mapstructure:"max_factor" yaml:"max_factor" json:"max_factor"`
	Styles    []string `mapstructure:"styles" yaml:"styles" json:"styles"`
}

func defaultFraction() fractionParams {
	return fractionParams{
		MinValue: 1, MaxValue: 100, MinFactor: 2, MaxFactor: 100,
		Styles: []string{"plain", "latex_frac", "latex_dfrac"},
	}
}

// Validate returns an error with the first invalid key, its value and the allowed values.
func (p fractionParams) Validate() error {
	const most = 1_000_000_000
	errs := []error{
		checkRange("min_value", p.MinValue, 1, most-1),
		checkRange("max_value", p.MaxValue, max(p.MinValue, 1)+1, most),
		checkRange("min_factor", p.MinFactor, 1, most),
		checkRange("max_factor", p.MaxFactor, max(p.MinFactor, 1), most),
	}
	if len(p.Styles) == 0 {
		errs = append(errs, errors.New("styles is empty: it must hold some of plain, latex_inline, latex_frac, latex_dfrac"))
	}
	for _, style := range p.Styles {
		errs = append(errs, checkChoice("styles", style, "plain", "latex_inline", "latex_frac", "latex_dfrac"))
	}
	return cmp.Or(errs...)
}

// fractionSimplification asks for a fraction in lowest terms.
type fractionSimplification struct{ params fractionParams }

func newFractionSimplification(params fractionParams) (Task, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	params.Styles = slices.Clone(params.Styles)
	return fractionSimplification{params}, nil
}

func (fractionSimplification) Name() string { return "fraction_simplification" }

func (t fractionSimplification) Item(seed, index int64) Item {
	r := newRNG(seed, index)
	numerator, denominator := t.drawReduced(r)
	factor := r.draw(t.params.MinFactor, t.params.MaxFactor)
	style := choose(r, t.params.Styles)
	answer := formatFraction(numerator, denominator, style)
	return Item{
		Question: fmt.Sprintf("Reduce %s to lowest terms. Answer with the fraction only.",
			formatFraction(numerator*factor, denominator*factor, style)),
		Answer: &answer,
		Metadata: object{
			{"source_dataset", t.Name()}, {"source_index", index},
			{"numerator", numerator * factor}, {"denominator", denominator * factor},
			{"simplified_numerator", numerator}, {"simplified_denominator", denominator},
			{"reduction_factor", factor}, {"style", style}, {"factor", factor},
			{"difficulty", object{
				{"value", []int{t.params.MinValue, t.params.MaxValue}},
				{"factor", []int{t.params.MinFactor, t.params.MaxFactor}},
			}},
		}.encode(),
	}
}

// drawReduced draws a reduced fraction of at most 1 with both parts within range. After ten misses it returns an
// unreduced one, as the library does.
func (t fractionSimplification) drawReduced(r *rng) (numerator, denominator int) {
	low, high := t.params.MinValue, t.params.MaxValue
	for range 10 {
		a, b := r.draw(low, high), r.draw(low, high)
		common := gcd(a, b)
		a, b = a/common, b/common
		if min(a, b) >= low {
			return min(a, b), max(a, b)
		}
	}
	a, b := r.draw(low, high), r.draw(low, high)
	return min(a, b), max(a, b)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func formatFraction(numerator, denominator int, style string) string {
	switch style {
	case "latex_inline":
		return fmt.Sprintf("$%d/%d$", numerator, denominator)
	case "latex_frac":
		return fmt.Sprintf(`$\frac{%d}{%d}$`, numerator, denominator)
	case "latex_dfrac":
		return fmt.Sprintf(`$\dfrac{%d}{%d}$`, numerator, denominator)
	}
	return fmt.Sprintf("%d/%d", numerator, denominator)
}

// Score is 1 for the fraction in lowest terms and 0.1 if it keeps one part of the question's fraction. Any other
// fraction scores 0.05, and any other answer 0.01, null included. The style does not matter.
func (fractionSimplification) Score(item Item, answer *string) float64 {
	var m struct {
		Numerator             json.Number `json:"numerator"`
		Denominator           json.Number `json:"denominator"`
		SimplifiedNumerator   json.Number `json:"simplified_numerator"`
		SimplifiedDenominator json.Number `json:"simplified_denominator"`
	}
	if err := readMetadata(item, &m); err != nil {
		return 0
	}
	if answer == nil {
		return 0.01
	}
	numerator, denominator, ok := parseFraction(*answer)
	if !ok {
		return 0.01
	}
	switch {
	case equalsNumber(numerator, m.SimplifiedNumerator) && equalsNumber(denominator, m.SimplifiedDenominator):
		return 1
	case equalsNumber(numerator, m.Numerator) || equalsNumber(denominator, m.Denominator):
		return 0.1
	}
	return 0.05
}

func equalsNumber(value *big.Int, number json.Number) bool {
	other, ok := pyParseInt(number.String())
	return ok && value.Cmp(other) == 0
}

// parseFraction reads a/b, or a text that begins with \frac{a}{b} or \dfrac{a}{b} in any case of letters, ignoring
// dollar signs around it.
func parseFraction(text string) (numerator, denominator *big.Int, ok bool) {
	text = pyStrip(strings.Trim(pyStrip(text), "$"))
	if a, b, found := cutLatexFraction(text); found {
		numerator, ok = pyParseInt(a)
		if ok {
			denominator, ok = pyParseInt(b)
		}
		return numerator, denominator, ok
	}
	a, b, found := strings.Cut(text, "/")
	if !found {
		return nil, nil, false
	}
	if numerator, ok = pyParseInt(a); ok {
		denominator, ok = pyParseInt(b)
	}
	return numerator, denominator, ok
}

// cutLatexFraction returns the two groups of digits at the beginning of text.
func cutLatexFraction(text string) (numerator, denominator string, found bool) {
	for _, command := range []string{`\frac`, `\dfrac`} {
		if len(text) < len(command) || !strings.EqualFold(text[:len(command)], command) {
			continue
		}
		numerator, rest, ok := cutDigitGroup(text[len(command):])
		if !ok {
			return "", "", false
		}
		denominator, _, ok := cutDigitGroup(rest)
		return numerator, denominator, ok
	}
	return "", "", false
}

// cutDigitGroup cuts white space and a group of digits in braces, and returns the rest after it.
func cutDigitGroup(text string) (digits, rest string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeftFunc(text, pyIsSpace), "{")
	if !ok {
		return "", "", false
	}
	text = strings.TrimLeftFunc(text, pyIsSpace)
	end := 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if _, isDigit := pyDigit(r); !isDigit {
			break
		}
		end += size
	}
	digits = text[:end]
	rest, ok = strings.CutPrefix(strings.TrimLeftFunc(text[end:], pyIsSpace), "}")
	return digits, rest, ok && digits != ""
}
