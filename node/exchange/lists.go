package exchange

// Depths of a batch's lists, counted in enclosing brackets: {"rollouts":[{"completions":[{"tokens":[...]}]}]}.
const (
	rolloutsDepth    = 2
	completionsDepth = 4
	tokensDepth      = 6
)

// checkLists counts rollouts, completions and tokens before anything is allocated for them. Otherwise 8 MB of "{},"
// would become some hundred megabytes of structs before they are counted. It applies the bounds to every list at these
// depths. It reads each byte once and leaves malformed JSON to the decoder.
func checkLists(data []byte) error {
	tokens := 0                     // in the batch
	var counts [tokensDepth + 1]int // commas so far in the list at each depth, -1 in an object
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
			if depth != rolloutsDepth && depth != completionsDepth && depth != tokensDepth || counts[depth] < 0 {
				continue
			}
			counts[depth]++
			if depth == tokensDepth {
				tokens++
			}
			if depth == rolloutsDepth && counts[depth] >= MaxRollouts {
				return invalidf("more than %d rollouts", MaxRollouts)
			}
			if depth == completionsDepth && counts[depth] >= MaxCompletions {
				return invalidf("more than %d completions of a question", MaxCompletions)
			}
			if tokens >= MaxTokens {
				return invalidf("more than %d tokens", MaxTokens)
			}
		}
	}
	return nil
}

// stringEnd returns the index of the quote that closes the string opened at start, or the index of the last byte.
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
