package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

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
	return o.print(stdout, c)
}

func (o *compareOptions) writeCSV(stdout io.Writer, c stats.Comparison) (err error) {
	out := stdout
	if o.csv != "-" {
		file, err := os.Create(o.csv)
		if err != nil {
			return &hintError{fmt.Errorf("write the rows: %w", err), "another file with --csv; its folder has to exist"}
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

func (o *compareOptions) print(out io.Writer, c stats.Comparison) error {
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	headings := make([]string, len(columns))
	for i, column := range columns {
		headings[i] = column.heading
	}
	fmt.Fprintln(w, strings.Join(headings, "\t"))
	for _, r := range c.Rows {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = cellText(column.show(r))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	printPairs(out, c)
	printTasks(out, c)
	for i, note := range c.Notes {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, printable(note))
	}
	return nil
}

func printPairs(out io.Writer, c stats.Comparison) {
	for i, p := range c.Pairs {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, printable(pairLine(c, p)))
		for _, line := range p.DifferenceLines() {
			fmt.Fprintln(out, printable("  "+line))
		}
	}
}

func printTasks(out io.Writer, c stats.Comparison) {
	if len(c.Tasks) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "task")
	for _, r := range c.Rows {
		fmt.Fprintf(w, "\t%s", cellText(r.Name))
	}
	fmt.Fprintln(w)
	for _, t := range c.Tasks {
		fmt.Fprint(w, cellText(t.Task))
		for _, cell := range t.Rewards {
			fmt.Fprintf(w, "\t%s", number(cell.Reward, "%.4f"))
			if cell.Improvement != nil {
				fmt.Fprintf(w, " (%s)", percent(cell.Improvement))
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a stdout that is closed has been reported with the table above
}

// cellText is text that neither leaves its cell nor speaks to the terminal: names may come from another's database.
func cellText(text string) string { return strings.ReplaceAll(printable(text), "\t", " ") }
