package task

// logicBlock is the number of words of 64 assignments that are evaluated at once. It bounds the memory.
const logicBlock = 64

// truthTable evaluates expressions on all assignments of its variables, 64 per word. Use it from one goroutine.
type truthTable struct {
	index map[string]int // of each variable, from 0
	words int            // words of a whole table, at least 1
	// values holds each variable's words for the current block.
	values [][]uint64
	// spare holds a buffer for the right operands of each nesting level.
	spare [][]uint64
}

// newTruthTable returns a table for the variables of all expressions. It fails above maxLogicVariables.
func newTruthTable(expressions ...*logicNode) (*truthTable, error) {
	t := &truthTable{index: map[string]int{}, words: 1}
	for _, expression := range expressions {
		expression.variables(t.index)
	}
	if len(t.index) > maxLogicVariables {
		return nil, errLogicTooBig
	}
	if len(t.index) > 6 {
		t.words = 1 << (len(t.index) - 6)
	}
	return t, nil
}

// follows reports whether conclusion holds wherever all premises do.
func (t *truthTable) follows(premises []*logicNode, conclusion *logicNode) bool {
	size := min(logicBlock, t.words)
	counterexamples, premise := make([]uint64, size), make([]uint64, size)
	for first := 0; first < t.words; first += size {
		t.enter(first, size)
		t.evaluate(conclusion, counterexamples, 0)
		for i := range counterexamples {
			counterexamples[i] = ^counterexamples[i]
		}
		for _, p := range premises {
			t.evaluate(p, premise, 0)
			for i, word := range premise {
				counterexamples[i] &= word
			}
		}
		for _, word := range counterexamples {
			if word != 0 {
				return false
			}
		}
	}
	return true
}

// enter makes words first..first+size-1 the current block. Bit j of an assignment's number is the value of variable
// j. With fewer than 6 variables the assignments repeat within a word.
func (t *truthTable) enter(first, size int) {
	// Bit k of masks[j] is bit j of k.
	masks := [6]uint64{
		0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
		0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000,
	}
	t.values = make([][]uint64, len(t.index))
	for variable := range t.values {
		words := make([]uint64, size)
		for i := range words {
			if variable < len(masks) {
				words[i] = masks[variable]
			} else if (first+i)>>(variable-len(masks))&1 == 1 {
				words[i] = ^uint64(0)
			}
		}
		t.values[variable] = words
	}
}

// evaluate writes the truth values of n for the current block to out.
func (t *truthTable) evaluate(n *logicNode, out []uint64, level int) {
	switch n.operator {
	case logicVariable:
		copy(out, t.values[t.index[n.name]])
		return
	case logicNot:
		t.evaluate(n.left, out, level)
		for i := range out {
			out[i] = ^out[i]
		}
		return
	}
	if level == len(t.spare) {
		t.spare = append(t.spare, make([]uint64, len(out)))
	}
	right := t.spare[level]
	t.evaluate(n.left, out, level)
	t.evaluate(n.right, right, level+1)
	switch n.operator {
	case logicAnd:
		for i := range out {
			out[i] &= right[i]
		}
	case logicOr:
		for i := range out {
			out[i] |= right[i]
		}
	case logicImplies:
		for i := range out {
			out[i] = ^out[i] | right[i]
		}
	default:
		for i := range out {
			out[i] = ^(out[i] ^ right[i])
		}
	}
}
