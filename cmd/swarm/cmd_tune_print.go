package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
	"github.com/sapo-swarm/swarm/launcher/targets"
)

// tuneDocument is what swarm tune -o json prints.
type tuneDocument struct {
	Workload             string  `json:"workload"`
	About                string  `json:"about"`
	Source               string  `json:"source"`
	Chosen               string  `json:"chosen"` // why it is this profile; empty where it was named
	GPU                  tuneGPU `json:"gpu"`
	TargetEffectiveBatch int     `json:"target_effective_batch"` // 0: none
	Devices              int     `json:"devices"`
	Estimate             string  `json:"estimate"` // published, formula, swarm, measured, none
	workload.Recommendation
	Profile *tuneProfile    `json:"profile"`
	Ladder  []workload.Step `json:"ladder"`
	Edits   *tuneEdits      `json:"edits"`
	Advice  []string        `json:"advice"`
	Next    []string        `json:"next"`
}

type tuneGPU struct {
	Index       *int   `json:"index"` // null: none of this host's
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
}

func (t *tuning) document() tuneDocument {
	d := tuneDocument{
		Workload: t.w.Name, About: t.w.About, Source: t.w.Source, Chosen: t.how,
		GPU:                  tuneGPU{Name: t.request.GPUName, MemoryTotal: t.request.GPUMemory},
		TargetEffectiveBatch: t.target(), Devices: t.result.Devices, Estimate: t.estimate, Recommendation: t.result, Profile: t.profile,
		Ladder: workload.Ladder(workload.Current(t.w, t.request.Read), t.values()), Edits: t.edits, Advice: append([]string{}, t.w.Advice...), Next: t.next(),
	}
	d.Warnings = append(append([]string{}, d.Warnings...), t.warnings...)
	if t.card != nil {
		d.GPU.Index = &t.card.Index
	}
	return d
}

func (t *tuning) target() int {
	if t.request.TargetEffectiveBatch > 0 {
		return t.request.TargetEffectiveBatch
	}
	return t.w.TargetEffectiveBatch
}

// values are those recommended, from which the ladder goes on.
func (t *tuning) values() map[string]string {
	values := map[string]string{}
	for _, v := range t.result.Values {
		values[v.Name] = v.Value
	}
	for _, s := range t.result.Stages { // stages have their own
		for _, v := range s.Values {
			delete(values, v.Name)
		}
	}
	return values
}

func (t *tuning) print(g *globals) error {
	d := t.document()
	if t.o.output == "json" {
		return writeJSON(g.stdout, d)
	}
	for _, w := range d.Warnings {
		fmt.Fprintln(g.stderr, "Warning:", w)
	}
	return screen.Print(g.stdout, func(p *table.Page) { t.printText(p, d) })
}

func (t *tuning) printText(p *table.Page, d tuneDocument) {
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

func (t *tuning) printHead(w *table.Page, d tuneDocument) {
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
		name = "none: the host's memory in its place"
	}
	fmt.Fprintf(w, "GPU        %s, %s", name, t.size(d.GPU.MemoryTotal))
	if d.Devices > 1 {
		fmt.Fprintf(w, ", %d of them", d.Devices)
	}
	fmt.Fprintln(w)
	from := map[string]string{
		estimatePublished: "published row " + d.PublishedFor + ", " + d.Source,
		estimateFormula:   "the profile's formula, " + d.Source,
		estimateFit:       "swarm's own estimate (swarm plan shows it item by item)",
		estimateMeasured:  "measured just now",
		estimateNone:      "the profile's starting values: nothing is known of its memory",
	}[d.Estimate]
	fmt.Fprintf(w, "from       %s\n", strings.TrimSuffix(from, ", "))
}

func (t *tuning) printValues(w *table.Page, d tuneDocument) {
	fmt.Fprintln(w, "\nRecommended:")
	rows := factTable()
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

// printSources lists every value with where it comes from.
func (t *tuning) printSources(w *table.Page, d tuneDocument) {
	fmt.Fprintln(w, "\nValues and their sources:")
	rows := factTable()
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

// ofStages tells whether every stage has that value.
func ofStages(stages []workload.Stage, name string) bool {
	return len(stages) > 0 && !slices.ContainsFunc(stages, func(s workload.Stage) bool {
		return !slices.ContainsFunc(s.Values, func(v workload.Value) bool { return v.Name == name })
	})
}

// sourceText is where a value comes from, in words.
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

func (t *tuning) printMemory(w *table.Page, d tuneDocument) {
	if d.ExpectedBytes == 0 {
		fmt.Fprintln(w, "\nExpected memory: not known.")
		return
	}
	fmt.Fprintf(w, "\nExpected memory: %s of %s (%.0f %%), margin %.0f %%\n", t.size(d.ExpectedBytes), t.size(d.GPU.MemoryTotal), 100*d.Utilisation,
		100*d.SafetyMargin)
	rows := factTable()
	for _, c := range d.Components {
		rows.Add(c.Name, t.size(c.Bytes), c.Note)
	}
	w.Table(rows)
}

// printLadder is what is left to do where it doesn't fit.
func printLadder(w io.Writer, steps []workload.Step) {
	fmt.Fprintln(w, "\nWhat takes less, in this order:")
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

// next are the commands to go on with.
func (t *tuning) next() []string {
	next := []string{}
	if t.edits == nil && t.result.Fits {
		named := ""
		if t.o.workload != "" {
			named = " --workload " + targets.ShellWord(t.o.workload)
		}
		size := " --auto"
		if t.o.gpuMemory.given {
			size = " --gpu-memory " + targets.ShellWord(t.o.gpuMemory.text)
		}
		if same := "swarm tune" + named + size + t.o.asGiven(); !t.o.profile {
			next = append(next, same+" --dry-run")
			if len(t.result.Assumed()) == 0 {
				next = append(next, same+" --apply")
			}
		}
	}
	return append(next, t.w.Next...)
}

// asGiven are the flags that the recommendation depends on, as they were given.
func (o *tuneOptions) asGiven() string {
	var words []string
	if o.dir != "." {
		words = append(words, "--dir", o.dir)
	}
	if o.given["gpu"] {
		words = append(words, "--gpu", strconv.Itoa(o.gpu))
	}
	if o.given["target-effective-batch"] {
		words = append(words, "--target-effective-batch", strconv.Itoa(o.target))
	}
	if o.given["safety-margin"] {
		words = append(words, "--safety-margin", strconv.FormatFloat(o.margin, 'g', -1, 64))
	}
	if o.given["devices"] {
		words = append(words, "--devices", strconv.Itoa(o.devices))
	}
	for _, set := range o.sets {
		words = append(words, "--set="+set)
	}
	text := ""
	for _, word := range words {
		text += " " + targets.ShellWord(word)
	}
	return text
}

// listedWorkload is a profile in swarm tune --list -o json.
type listedWorkload struct {
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Source string   `json:"source"`
	Values []string `json:"values"`
}

func listWorkloads(g *globals, output string) error {
	list := []listedWorkload{}
	for _, name := range configs.Workloads() {
		w, err := configs.LoadWorkload(name)
		if err != nil {
			return err
		}
		item := listedWorkload{Name: name, About: w.About, Source: w.Source, Values: []string{}}
		for _, v := range w.Values {
			item.Values = append(item.Values, v.Name)
		}
		list = append(list, item)
	}
	if output == "json" {
		return writeJSON(g.stdout, list)
	}
	rows := table.New(table.Column{}, table.Column{Wrap: true}, table.Column{Drop: 1})
	for _, w := range list {
		rows.Add(w.Name, w.About, w.Source)
	}
	return screen.Print(g.stdout, func(p *table.Page) { p.Table(rows) })
}
