package terminal

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// PrintComparison prints a study's verdict and its pass@1 by cost, the table of rows, the pairs, the tasks and the
// notes. columns selects the table's columns; empty: all columns with content. An unknown column is a *configs.Error.
func PrintComparison(out *table.Page, c stats.Comparison, columns []string) error {
	if err := PrintStudy(out, c.Study); err != nil {
		return err
	}
	printPer(out, c.Study)
	c = c.Shortened()
	names := columns
	if len(names) == 0 {
		names = usualColumns(c)
	}
	chosen, err := chooseColumns(names)
	if err != nil {
		return err
	}
	out.Table(comparisonTable(c.Rows, chosen, len(columns) > 0))
	printPairs(out, c)
	printTasks(out, c)
	for i, note := range c.Notes {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, charset.Shown(note))
	}
	return nil
}

// PrintStudy prints a study's verdict and its evidence. It prints nothing for nil.
func PrintStudy(out io.Writer, study *stats.Study) error {
	if study == nil {
		return nil
	}
	var b strings.Builder
	for _, line := range study.Lines {
		b.WriteString(charset.Shown(line) + "\n")
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	return nil
}

// WriteComparisonCSV writes the rows of a comparison with unrounded numbers: the named columns, or all. An unknown
// column is a *configs.Error.
func WriteComparisonCSV(out io.Writer, c stats.Comparison, columns []string) error {
	chosen, err := comparisonColumns, error(nil)
	if len(columns) > 0 {
		if chosen, err = chooseColumns(columns); err != nil {
			return err
		}
	}
	lines := [][]string{columnNames(chosen)}
	for _, r := range c.Rows {
		line := make([]string, len(chosen))
		for i, column := range chosen {
			line[i] = csvCell(column.raw(r))
		}
		lines = append(lines, line)
	}
	if err := csv.NewWriter(out).WriteAll(lines); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return nil
}

// comparisonTable returns a table with one row per experiment. Columns that the user selected are never dropped.
func comparisonTable(rows []stats.Row, columns []comparisonColumn, asked bool) *table.Table {
	t := table.New()
	t.More = "--columns"
	for _, c := range columns {
		column := table.Column{Title: c.heading, Name: strings.ReplaceAll(c.name, "_", " "), Right: c.isNumber()}
		if !asked {
			column.Drop = comparisonDrop[c.name]
		}
		t.Columns = append(t.Columns, column)
	}
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = cellText(column.show(r))
		}
		t.Add(cells...)
	}
	return t
}

func printTasks(out *table.Page, c stats.Comparison) {
	if len(c.Tasks) == 0 {
		return
	}
	byRow := func(title string) *table.Table {
		columns := []table.Column{{Title: title}}
		for _, r := range c.Rows {
			columns = append(columns, table.Column{Title: cellText(r.Name)})
		}
		return table.New(columns...)
	}
	rewards, passes, evaluated := byRow("reward in training"), byRow("held-out pass@1, where compared"), false
	for _, task := range c.Tasks {
		reward, pass := []string{cellText(task.Task)}, []string{cellText(task.Task)}
		for _, cell := range task.Rewards {
			text := optionalNumber(cell.Reward, "%.4f")
			if cell.Improvement != nil {
				text += " (" + signedPercent(cell.Improvement) + ")"
			}
			reward, pass = append(reward, text), append(pass, optionalNumber(cell.Pass, "%.4f"))
			evaluated = evaluated || cell.Pass != nil
		}
		rewards.Add(reward...)
		passes.Add(pass...)
	}
	out.Println()
	out.Table(rewards)
	if !evaluated {
		return
	}
	if len(c.Drawn) > 0 {
		own, others := []string{"tasks that a node draws"}, []string{"tasks that it does not draw"}
		for _, d := range c.Drawn {
			own, others = append(own, optionalNumber(d.Own, "%.4f")), append(others, optionalNumber(d.Others, "%.4f"))
		}
		passes.Add(own...)
		passes.Add(others...)
	}
	out.Println()
	out.Table(passes)
}
