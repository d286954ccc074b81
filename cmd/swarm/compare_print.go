package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

func (o *compareOptions) write(stdout io.Writer, c stats.Comparison) error {
	if o.csv != "" {
		if err := o.writeCSV(stdout, c); err != nil {
			return err
		}
	}
	switch {
	case o.output == "json":
		return writeJSON(stdout, c)
	case o.csv == "-":
		return nil
	}
	p := table.NewPage(stdout, screen.Of(stdout, os.Environ()))
	if err := o.print(p, c); err != nil {
		return err
	}
	return p.Flush()
}

func (o *compareOptions) writeCSV(stdout io.Writer, c stats.Comparison) (err error) {
	out := stdout
	if o.csv != "-" {
		file, err := os.Create(o.csv)
		if err != nil {
			return fail.Hint(fmt.Errorf("write the rows: %w", err), "another file with --csv; its folder has to exist")
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	columns := compareColumns
	if len(o.columns) > 0 {
		if columns, err = chooseColumns(o.columns); err != nil {
			return err
		}
	}
	w := csv.NewWriter(out)
	lines := [][]string{columnNames(columns)}
	for _, r := range c.Rows {
		line := make([]string, len(columns))
		for i, column := range columns {
			line[i] = plain(column.raw(r))
		}
		lines = append(lines, line)
	}
	if err := w.WriteAll(lines); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return nil
}

func (o *compareOptions) print(out *table.Page, c stats.Comparison) error {
	if err := printStudy(out, c.Study); err != nil {
		return err
	}
	c = c.Shortened()
	names := o.columns
	if len(names) == 0 {
		names = usualColumns(c)
	}
	columns, err := chooseColumns(names)
	if err != nil {
		return err
	}
	out.Table(comparisonTable(c.Rows, columns, len(o.columns) > 0))
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

// comparisonTable has a row an experiment. Columns that were asked for are never left out.
func comparisonTable(rows []stats.Row, columns []compareColumn, asked bool) *table.Table {
	t := table.New()
	t.More = "--columns"
	for _, c := range columns {
		column := table.Column{Title: c.heading, Name: strings.ReplaceAll(c.name, "_", " "), Right: c.isNumber()}
		if !asked {
			column.Drop = compareDrop[c.name]
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

func printPairs(out io.Writer, c stats.Comparison) {
	for i, p := range c.Pairs {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, charset.Shown(pairLine(c, p)))
		for _, line := range p.DifferenceLines() {
			fmt.Fprintln(out, charset.Shown("  "+line))
		}
	}
}

func printTasks(out *table.Page, c stats.Comparison) {
	if len(c.Tasks) == 0 {
		return
	}
	columns := []table.Column{{Title: "task"}}
	for _, r := range c.Rows {
		columns = append(columns, table.Column{Title: cellText(r.Name)})
	}
	t := table.New(columns...)
	for _, task := range c.Tasks {
		row := []string{cellText(task.Task)}
		for _, cell := range task.Rewards {
			text := number(cell.Reward, "%.4f")
			if cell.Improvement != nil {
				text += " (" + percent(cell.Improvement) + ")"
			}
			row = append(row, text)
		}
		t.Add(row...)
	}
	out.Println()
	out.Table(t)
}

// cellText is text that neither leaves its cell nor speaks to the terminal: names may come from another's database.
func cellText(text string) string { return strings.ReplaceAll(charset.Shown(text), "\t", " ") }
