package exchange

// Depths of a batch's lists, counted in enclosing brackets: {"rollouts":[{"completions":[{"tokens":[...]}]}]}.
const (
	rolloutsDepth    = 2
	completionsDepth = 4
	tokensDepth      = 6
)

// mostElements is how many elements a list at a depth may have, and of what.
var mostElements = [tokensDepth + 1]struct {
	most int
	of   string
}{
	rolloutsDepth: {MaxRollouts, "rollouts"}, completionsDepth: {MaxCompletions, "completions of a question"}, tokensDepth: {MaxTokens, "tokens of a completion"},
}

// checkLists counts the elements of the rollouts, completions and tokens before anything is allocated for them: eight megabytes of
// "{}," would otherwise become some hundred megabytes of structs that only then could be counted. Any list at these depths is
// held to the bound. It reads each byte once, makes no sense of them otherwise and leaves malformed JSON to the decoder.
func checkLists(data []byte) error {
	var counts [len(mostElements)]int // commas so far in the list at a depth, -1 in an object
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '[', '{':
			depth++
			if depth < len(counts) {
				counts[depth] = 0
				if data[i] == '{' {
					counts[depth] = -1
				}
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case ',':
			if depth >= len(counts) || mostElements[depth].most == 0 || counts[depth] < 0 {
				continue
			}
			counts[depth]++
			if bound := mostElements[depth]; counts[depth] >= bound.most {
				return invalidf("more than %d %s", bound.most, bound.of)
			}
		}
	}
	return nil
}

// stringEnd returns the index of the quote that ends the string that begins at start, or of the last byte.
func stringEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(data) - 1
}
