package task

import (
	"cmp"
	"fmt"
	"strings"
)

type binaryMatrixParams struct {
	MinN  int     `mapstructure:"min_n" yaml:"min_n" json:"min_n"`
	MaxN  int     `mapstructure:"max_n" yaml:"max_n" json:"max_n"`
	PZero float64 `mapstructure:"p_zero" yaml:"p_zero" json:"p_zero"`
}

func defaultBinaryMatrix() binaryMatrixParams {
	return binaryMatrixParams{MinN: 3, MaxN: 10, PZero: 0.25}
}

const maxMatrixSize = 50

// Validate returns an error with the first invalid key, its value and the allowed values.
func (p binaryMatrixParams) Validate() error {
	if !(p.PZero >= 0 && p.PZero <= 1) {
		return fmt.Errorf("p_zero is %v: it must be from 0 to 1", p.PZero)
	}
	return cmp.Or(
		checkRange("min_n", p.MinN, 1, maxMatrixSize),
		checkRange("max_n", p.MaxN, p.MinN, maxMatrixSize),
	)
}

// binaryMatrix asks for the Manhattan distance of each cell to the nearest 0.
type binaryMatrix struct{ params binaryMatrixParams }

func newBinaryMatrix(p binaryMatrixParams) (Task, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &binaryMatrix{p}, nil
}

func (*binaryMatrix) Name() string { return "binary_matrix" }

func (t *binaryMatrix) Item(seed, index int64) Item {
	r := newRNG(seed, index)
	n := r.draw(t.params.MinN, t.params.MaxN)
	cells := make([]int, n*n)
	for i := 1; i < len(cells); i++ { // cell 0 stays 0, so that there is at least one 0
		if r.random() >= t.params.PZero {
			cells[i] = 1
		}
	}
	r.shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	matrix := make([][]int, n)
	for i := range matrix {
		matrix[i] = cells[i*n : (i+1)*n]
	}
	solution := zeroDistances(matrix)
	answer := matrixText(solution)
	return Item{
		Question: "Give each cell's Manhattan distance to its nearest 0, in the same layout.\n\n" + matrixText(matrix),
		Answer:   &answer,
		Metadata: object{
			{"source_dataset", t.Name()},
			{"source_index", index},
			{"matrix", matrix},
			{"solution", solution},
			{"n", n},
			{"difficulty", object{
				{"n", []int{t.params.MinN, t.params.MaxN}},
				{"p_zero", t.params.PZero},
			}},
		}.encode(),
	}
}

// Score is 1 for the exact text, and 0.1 for a Python literal that prints as that text. The library evaluates any
// Python expression there. This verifier reads literals only (see parseLiteral).
func (*binaryMatrix) Score(item Item, answer *string) float64 {
	switch {
	case answer == nil || item.Answer == nil:
		return 0
	case *answer == *item.Answer:
		return 1
	case literalPrintsAs(*answer, *item.Answer):
		return 0.1
	}
	return 0
}

// zeroDistances is the distance transform of Rosenfeld and Pfaltz (1966), exact in the Manhattan metric: one pass
// from the top left, and one from the bottom right. matrix must have at least one 0.
func zeroDistances(matrix [][]int) [][]int {
	n := len(matrix)
	d := make([][]int, n)
	for i, row := range matrix {
		d[i] = make([]int, n)
		for j, cell := range row {
			if cell == 0 {
				continue
			}
			d[i][j] = 2 * n
			if i > 0 {
				d[i][j] = d[i-1][j] + 1
			}
			if j > 0 {
				d[i][j] = min(d[i][j], d[i][j-1]+1)
			}
		}
	}
	for i := n - 1; i >= 0; i-- {
		for j := n - 1; j >= 0; j-- {
			if i < n-1 {
				d[i][j] = min(d[i][j], d[i+1][j]+1)
			}
			if j < n-1 {
				d[i][j] = min(d[i][j], d[i][j+1]+1)
			}
		}
	}
	return d
}

// matrixText joins cells with a space and rows with a line break.
func matrixText(matrix [][]int) string {
	rows := make([]string, len(matrix))
	for i, row := range matrix {
		rows[i] = arcRow(row).text()
	}
	return strings.Join(rows, "\n")
}

// literalPrintsAs reports whether source is a literal of rows of cells that matrixText would print as want.
func literalPrintsAs(source, want string) bool {
	// Each row, and each cell except the first of a row, needs at least one character of want. A literal with more
	// values cannot print as want. This bounds time and memory.
	value, ok := parseLiteral(source, 2*len(want)+4)
	if !ok {
		return false
	}
	rows, ok := value.elements(len(want))
	if !ok {
		return false
	}
	var b strings.Builder
	for i, row := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		cells, ok := row.elements(len(want))
		if !ok {
			return false
		}
		for j, cell := range cells {
			if j > 0 {
				b.WriteByte(' ')
			}
			if cell.kind == literalSequence || b.Len() > len(want) {
				return false
			}
			b.WriteString(cell.text)
		}
	}
	return b.String() == want
}
