package table

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/internal/charset"
)

func workers() *Table {
	t := New(
		Column{Title: "WORKER"}, Column{Title: "STATE"}, Column{Title: "ROUNDS", Right: true}, Column{Title: "DEVICE", Drop: 1, Max: 12},
		Column{Title: "PACE", Right: true, Drop: 3}, Column{Title: "ENERGY", Right: true, Drop: 2}, Column{Title: "WHY", Wrap: true},
	)
	t.Add("anna", "training", "12", "NVIDIA GeForce RTX 4090", "3.1 s", "0.2 kWh", "")
	t.Add("bert", "lost", "7", "CPU", "–", "–", "it has not been heard from since the network of its host went down")
	return t
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

func TestTableInFullWithoutAWidth(t *testing.T) {
	require.Equal(t, strings.TrimLeft(`
WORKER  STATE     ROUNDS  DEVICE                    PACE   ENERGY  WHY
anna    training      12  NVIDIA GeForce RTX 4090  3.1 s  0.2 kWh
bert    lost           7  CPU                          –        –  it has not been heard from since the network of its host went down
`, "\n"), text(workers().Lines(Screen{})))
}

func TestTableCutsThenWrapsThenLeavesColumnsOut(t *testing.T) {
	require.Equal(t, strings.TrimLeft(`
WORKER  STATE     ROUNDS  DEVICE         PACE   ENERGY  WHY
anna    training      12  NVIDIA GeFo…  3.1 s  0.2 kWh
bert    lost           7  CPU               –        –  it has not been heard
                                                        from since the network
                                                        of its host went down
`, "\n"), text(workers().Lines(Screen{Width: 80})))
	require.Equal(t, strings.TrimLeft(`
WORKER  STATE     ROUNDS  WHY
anna    training      12
bert    lost           7  it has not been heard from
                          since the network of its
                          host went down
Not shown at 52 columns: device, pace, energy. Use a
wider terminal or -o json.
`, "\n"), text(workers().Lines(Screen{Width: 52})))
}

func TestRowsBecomeBlocksOnANarrowScreen(t *testing.T) {
	require.Equal(t, strings.TrimLeft(`
anna
  STATE   training
  ROUNDS  12
  DEVICE  NVIDIA GeForce RTX 4090
  PACE    3.1 s
  ENERGY  0.2 kWh
bert
  STATE   lost
  ROUNDS  7
  DEVICE  CPU
  PACE    -
  ENERGY  -
  WHY     it has not been heard from
          since the network of its host
          went down
`, "\n"), text(workers().Lines(Screen{Width: 40, ASCII: true})))
}

func TestSmallTableStaysATableOnANarrowScreen(t *testing.T) {
	small := New(titles("NAME", "KIND")...)
	small.Add("anna", "worker")
	small.Indent = 2
	require.Equal(t, "  NAME  KIND\n  anna  worker\n", text(small.Lines(Screen{Width: 40})))
}

func TestTableWithoutTitlesHasNoHeading(t *testing.T) {
	plain := New(titles("", "", "")...)
	plain.Add("weights", "0.5 GB", "")
	plain.Add("optimizer", "1.0 GB", "two moments")
	require.Equal(t, "weights    0.5 GB\noptimizer  1.0 GB  two moments\n", text(plain.Lines(Screen{})))
}

func TestOptionalColumnIsThereWhereACellIs(t *testing.T) {
	columns := []Column{{Title: "NAME"}, {Title: "WHY", Optional: true}, {Title: "SEEN"}}
	none, some := New(columns...), New(columns...)
	none.Add("anna", "", "1 s ago")
	some.Add("anna", "", "1 s ago")
	some.Add("bert", "lost", "9 s ago")
	require.Equal(t, "NAME  SEEN\nanna  1 s ago\n", text(none.Lines(Screen{})))
	require.Equal(t, "NAME  WHY   SEEN\nanna        1 s ago\nbert  lost  9 s ago\n", text(some.Lines(Screen{})))
}

// squeezed returns text without its spaces.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// TestTablesKeepTheirPromises checks three promises. No line is wider than the screen, except for a word that
// cannot be broken. Blocks omit nothing. A table without a width limit has every cell in full.
func TestTablesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z–…漢]{1,14}`)
		table := New()
		for i := range rapid.IntRange(1, 9).Draw(t, "columns") {
			c := Column{
				Title: rapid.StringMatching(`[A-Z]{1,8}( [A-Z]{2,6})?`).Draw(t, "title"), Right: rapid.Bool().Draw(t, "right"),
				Max: rapid.SampledFrom([]int{0, 4, 10}).Draw(t, "max"), Wrap: rapid.Bool().Draw(t, "wrap"),
			}
			if i > 0 {
				c.Drop = rapid.IntRange(0, 4).Draw(t, "drop")
			}
			table.Columns = append(table.Columns, c)
		}
		table.Indent = rapid.IntRange(0, 4).Draw(t, "indent")
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			row := make([]string, len(table.Columns))
			for i := range row {
				row[i] = strings.Join(rapid.SliceOfN(word, 0, 6).Draw(t, "cell"), " ")
			}
			table.Add(row...)
		}
		width := rapid.IntRange(30, 140).Draw(t, "width")
		s := Screen{Width: width, ASCII: rapid.Bool().Draw(t, "ascii")}
		lines := table.Lines(s)
		for _, line := range lines {
			require.True(t, ansi.StringWidth(line) <= width || len(strings.Fields(line)) == 1, "%d cells of %d: %q", ansi.StringWidth(line), width, line)
			require.Equal(t, strings.TrimRight(line, " "), line)
		}
		if width < narrow { // in full or as blocks: nothing is missing
			all := squeezed(strings.Join(lines, " "))
			for _, row := range table.rows {
				for _, cell := range row {
					if s.ASCII {
						cell = charset.Text(cell)
					}
					require.Contains(t, all, squeezed(cell))
				}
			}
			require.NotContains(t, all, "Notshown")
		}
		whole := text(table.Lines(Screen{}))
		for _, row := range table.rows {
			for _, cell := range row {
				require.Contains(t, whole, cell)
			}
		}
		require.NotContains(t, whole, "Not shown")
	})
}

// titles returns columns with these titles. None is ever hidden.
func titles(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, title := range names {
		columns[i].Title = title
	}
	return columns
}
