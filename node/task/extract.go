package task

import "strings"

// ExtractAnswer returns the text of the last <answer>…</answer> of completion, stripped of white space, nil if
// there is none. Pairs do not overlap: each runs from the first free <answer> to the nearest </answer>.
func ExtractAnswer(completion string) *string {
	const opening, closing = "<answer>", "</answer>"
	var last *string
	for {
		_, rest, found := strings.Cut(completion, opening)
		if !found {
			return last
		}
		inside, rest, found := strings.Cut(rest, closing)
		if !found {
			return last
		}
		answer := pyStrip(inside)
		last, completion = &answer, rest
	}
}

// DecimalReward is 1 if answer and oracle are the same number. If the answer contains the oracle, it is the
// oracle's share of the answer, in code points. Otherwise it is 0, also where the library raises. stripCommas
// deletes all commas first.
func DecimalReward(answer *string, oracle string, stripCommas bool) float64 {
	if answer == nil {
		return 0
	}
	text := *answer
	if stripCommas {
		text, oracle = strings.ReplaceAll(text, ",", ""), strings.ReplaceAll(oracle, ",", "")
	}
	if text == "" {
		return 0
	}
	if equalDecimals(text, oracle) {
		return 1
	}
	if strings.Contains(text, oracle) {
		return float64(pyLen(oracle)) / float64(pyLen(text))
	}
	return 0
}

func equalDecimals(a, b string) bool {
	x, okX := pyParseDecimal(a)
	y, okY := pyParseDecimal(b)
	switch {
	case !okX || !okY || x.kind != y.kind || x.kind == notANumber:
		return false
	case x.kind == infinite:
		return x.negative == y.negative
	}
	return x.compare(y) == 0
}
