package tune

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Print writes the recommendation for the user.
func (t *Answer) Print(p *table.Page, d Document) {
	t.printHead(p, d)
	t.printValues(p, d)
	t.printSources(p, d)
	t.printMemory(p, d)
	t.printProfile(p)
	if !d.Fits && len(d.Ladder) > 0 {
		printLadder(p, d.Ladder)
	}
	if d.Edits != nil {
		d.Edits.print(p)
	}
	if len(d.Advice) > 0 {
		p.Printf("\nGood to know:\n  %s\n", strings.Join(d.Advice, "\n  "))
	}
	if len(d.Next) > 0 {
		p.Println("\nNext:")
		for _, next := range d.Next {
			p.Command("  " + next)
		}
	}
}

func (t *Answer) printHead(w *table.Page, d Document) {
	fmt.Fprintf(w, "workload   %s", d.Workload)
	if d.About != "" {
		fmt.Fprintf(w, ": %s", d.About)
	}
	fmt.Fprintln(w)
	if d.Chosen != "" {
		fmt.Fprintf(w, "           (%s)\n", d.Chosen)
	}
	name := d.GPU.Name
	switch {
	case d.GPU.Index != nil:
		name = fmt.Sprintf("GPU %d, %s", *d.GPU.Index, name)
	case t.onHost:
		name = "none: host memory instead"
	}
	fmt.Fprintf(w, "GPU        %s, %s", name, t.size(d.GPU.MemoryTotal))
	if d.Devices > 1 {
		fmt.Fprintf(w, ", %d of them", d.Devices)
	}
	fmt.Fprintln(w)
	from := map[string]string{
		EstimatePublished: "published row " + d.PublishedFor + ", " + d.Source,
		EstimateFormula:   "the profile's formula, " + d.Source,
		EstimateFit:       "swarm's own estimate (swarm plan shows it item by item)",
		EstimateMeasured:  "measured just now",
		EstimateNone:      "the profile's initial values: its memory is unknown",
	}[d.Estimate]
	fmt.Fprintf(w, "from       %s\n", strings.TrimSuffix(from, ", "))
}

func (t *Answer) printValues(w *table.Page, d Document) {
	fmt.Fprintln(w, "\nRecommended:")
	rows := table.Facts()
	row := func(indent string, v workload.Value) {
		rows.Add(indent+v.Name, v.Value, strings.Join(v.Places, ", "))
	}
	for _, v := range d.Values {
		if v.Decided {
			row("", v)
		}
	}
	_, accumulates := t.w.ByRole(configs.RoleAccumulate)
	effective := fmt.Sprintf("%d x %d", d.Batch, d.Accumulate)
	if d.Devices > 1 {
		effective += fmt.Sprintf(" x %d GPUs", d.Devices)
	}
	if d.TargetEffectiveBatch > 0 {
		effective += fmt.Sprintf(", target %d", d.TargetEffectiveBatch)
	}
	if accumulates {
		rows.Add("effective batch", strconv.Itoa(d.EffectiveBatch), effective)
	}
	for _, s := range d.Stages {
		expected := ""
		if s.ExpectedBytes > 0 {
			expected = "expected memory " + t.size(s.ExpectedBytes)
		}
		rows.Add("stage "+s.Name, "", expected)
		for _, v := range s.Values {
			row("  ", v)
		}
	}
	w.Table(rows)
}

// printSources lists every value with its source.
func (t *Answer) printSources(w *table.Page, d Document) {
	fmt.Fprintln(w, "\nValues and their sources:")
	rows := table.Facts()
	row := func(indent string, v workload.Value) {
		rows.Add(indent+v.Name, v.Value, sourceText(v))
	}
	for _, v := range d.Values {
		if !ofStages(d.Stages, v.Name) {
			row("", v)
		}
	}
	for _, s := range d.Stages {
		rows.Add("stage " + s.Name)
		for _, v := range s.Values {
			row("  ", v)
		}
	}
	w.Table(rows)
	if len(t.result.Assumed()) > 0 {
		fmt.Fprintln(w, "--apply writes nothing until the assumed values are in the files or --set gives them.")
	}
}

// ofStages reports whether every stage has the value.
func ofStages(stages []workload.Stage, name string) bool {
	return len(stages) > 0 && !slices.ContainsFunc(stages, func(s workload.Stage) bool {
		return !slices.ContainsFunc(s.Values, func(v workload.Value) bool { return v.Name == name })
	})
}

// sourceText describes the source of a value.
func sourceText(v workload.Value) string {
	text := v.Source
	switch {
	case v.Assumed && v.Used:
		text += ", assumed"
	case v.Decided && v.File != "" && v.Current != v.Value:
		text += fmt.Sprintf("; %s:%d has %s", v.File, v.Line, v.Current)
	}
	switch {
	case v.Why == "":
		return text
	case v.Source == workload.SourceSet:
		text += ", not written"
	}
	return text + ": " + v.Why
}

func (t *Answer) printMemory(w *table.Page, d Document) {
	if d.ExpectedBytes == 0 {
		fmt.Fprintln(w, "\nExpected memory: unknown.")
		return
	}
	fmt.Fprintf(w, "\nExpected memory: %s of %s (%.0f %%), margin %.0f %%\n", t.size(d.ExpectedBytes), t.size(d.GPU.MemoryTotal), 100*d.Utilisation,
		100*d.SafetyMargin)
	rows := table.Facts()
	for _, c := range d.Components {
		rows.Add(c.Name, t.size(c.Bytes), c.Note)
	}
	w.Table(rows)
}

// printLadder writes the remaining steps if the training doesn't fit.
func printLadder(w io.Writer, steps []workload.Step) {
	fmt.Fprintln(w, "\nTo use less memory, in this order:")
	for i, s := range steps {
		fmt.Fprintf(w, "  %d. %s", i+1, s.Title)
		if s.Expected != "" {
			fmt.Fprintf(w, " (%s)", s.Expected)
		}
		fmt.Fprintln(w)
		for _, e := range s.Edits {
			fmt.Fprintf(w, "       %s: %s -> %s  %s\n", e.Value, e.From, e.To, e.Place)
		}
		if s.TradeOff != "" {
			fmt.Fprintf(w, "     trade-off: %s\n", s.TradeOff)
		}
	}
}

func (e *Edits) print(w *table.Page) {
	switch {
	case len(e.Files) == 0:
		fmt.Fprintln(w, "\nThe files already have these values.")
	case !e.Applied:
		w.Println()
		w.Lines(strings.Split(strings.TrimSuffix(e.Diff, "\n"), "\n")) // keep the diff's lines
	default:
		fmt.Fprintln(w, "\nWritten:")
		for _, f := range e.Files {
			for _, edit := range f.Edits {
				fmt.Fprintf(w, "  %s:%d  %s: %s -> %s\n", f.Path, edit.Line, edit.Key, edit.From, edit.To)
			}
		}
		fmt.Fprintln(w, "  Each file has a backup beside it; swarm tune --undo restores them.")
	}
}

func (t *Answer) printProfile(w *table.Page) {
	if t.profile == nil {
		return
	}
	fmt.Fprintf(w, "\nMeasured (%s memory):\n", t.profile.Where)
	rows := table.New(table.Column{Title: "batch", Right: true}, table.Column{Title: "measured", Right: true}, table.Column{Title: "line", Right: true},
		table.Column{Title: "estimate", Right: true}, table.Column{Title: "seconds", Right: true})
	rows.Indent = 2
	for _, p := range t.profile.Points {
		measured, estimate := "does not fit", "-"
		if p.Fits {
			measured = t.size(p.Bytes)
		}
		if p.Estimate > 0 {
			estimate = t.size(p.Estimate)
		}
		rows.Add(strconv.Itoa(p.Batch), measured, t.size(t.profile.Line.At(p.Batch)), estimate, fmt.Sprintf("%.1f", p.Seconds))
	}
	w.Table(rows)
	fmt.Fprintf(w, "  the points differ from the line by at most %.1f %%\n", 100*t.profile.Line.Residual)
	if d := t.profile.LargestDifference; d != nil {
		fmt.Fprintf(w, "  the estimate differs from the measurement by at most %.0f %%\n", 100**d)
	}
}
