package diagnose

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// kinds names the component that ran out of memory.
var kinds = map[shortage.Kind]string{
	shortage.Torch: "PyTorch", shortage.JAX: "JAX", shortage.TensorFlow: "TensorFlow", shortage.CUDA: "CUDA or a library on top of it",
	shortage.HostAllocation: "an allocation on the host", shortage.HostKilled: "a process was killed",
}

// Print writes the diagnosis for the user.
func (d *Document) Print(b *table.Page) {
	if d.Shortage == nil {
		b.Printf("No memory shortage in the %s of %s", units.Plural(d.Lines, "line"), d.Log)
		if d.Fault != nil {
			b.Printf("; the last failure (%s) is in line %d:\n  %s\n", d.Fault.Kind, d.Fault.LineNumber, d.Fault.Line)
		} else {
			b.Println(", and no known failure.")
		}
		if d.Fault != nil && d.Fault.Kind == shortage.Signal {
			b.Println("If a process was killed without a message, the host may have run out of memory. Check with: dmesg -T | grep -i oom")
		}
	} else {
		d.printShortage(b, *d.Shortage)
		d.printWorkload(b)
		d.printLadder(b)
	}
}

func (d *Document) printShortage(w *table.Page, r shortage.Report) {
	what := "GPU memory"
	switch {
	case r.OnHost:
		what = "Host memory"
	case r.GPU >= 0:
		what = fmt.Sprintf("The memory of GPU %d", r.GPU)
	}
	fmt.Fprintf(w, "%s ran out (%s): line %d of %s", what, kinds[r.Kind], r.LineNumber, d.Log)
	if r.Where != "" {
		fmt.Fprintf(w, ", in %s", r.Where)
	}
	fmt.Fprintf(w, "\n  %s\n", r.Line)
	t := table.New(table.Column{}, table.Column{Right: true}, table.Column{})
	t.Indent = 2
	for _, row := range []struct {
		name  string
		bytes int64
	}{
		{"asked for", r.Asked}, {"free", r.Free}, {"there is", r.Total}, {"in tensors", r.Allocated}, {"reserved besides", r.Reserved},
		{"this process", r.InUse}, {"others", r.Others()},
	} {
		if row.bytes > 0 {
			t.Add(row.name, units.BytesOfTorch(row.bytes), "("+units.Bytes(row.bytes)+")")
		}
	}
	if t.Len() > 0 {
		w.Println()
		w.Table(t)
	}
	var notes []string
	if r.Times > 1 {
		notes = append(notes, fmt.Sprintf("- Memory ran out %d times in the log; this is the latest.", r.Times))
	}
	for _, text := range d.Means {
		notes = append(notes, "- "+text+".")
	}
	for _, text := range d.Warnings {
		notes = append(notes, "- Odd: "+text+".")
	}
	if !d.LastFailure && d.Fault != nil {
		notes = append(notes, fmt.Sprintf("- It is not the last failure: line %d (%s) is: %s", d.Fault.LineNumber, d.Fault.Kind, d.Fault.Line))
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}

func (d *Document) printWorkload(w *table.Page) {
	if d.Workload == nil {
		fmt.Fprintln(w, "\nThe log does not identify the workload, so these are general steps. --workload NAME shows a profile's steps (swarm tune --list).")
		return
	}
	fmt.Fprintf(w, "\nWorkload %s", d.Workload.Name)
	if d.Workload.Guessed {
		fmt.Fprintf(w, ": a guess, from %s", strings.Join(d.Workload.From, ", "))
	}
	fmt.Fprintln(w)
	t := table.Facts()
	for _, v := range d.Values {
		from := v.From
		if v.Note != "" {
			from += "; " + v.Note
		}
		t.Add(v.Name, v.Value, from)
	}
	w.Table(t)
}

func (d *Document) printLadder(w *table.Page) {
	fmt.Fprintln(w, "\nWhat to do, in this order:")
	for i, s := range d.Ladder {
		fmt.Fprintf(w, "  %d. %s", i+1, s.Title)
		if s.Expected != "" {
			fmt.Fprintf(w, " (%s)", s.Expected)
		}
		fmt.Fprintln(w)
		for j, e := range s.Edits {
			from := e.From
			if from == "" {
				from = "?"
			}
			place := e.Place
			if s.Lines[j] > 0 {
				place += fmt.Sprintf(" (line %d)", s.Lines[j])
			}
			fmt.Fprintf(w, "       %s: %s -> %s  %s\n", e.Value, from, e.To, place)
		}
		if s.Options != "" {
			fmt.Fprintf(w, "       or as Hydra overrides: %s\n", s.Options)
		}
		if s.Command != "" {
			fmt.Fprintf(w, "       %s\n", s.Command)
		}
		if s.Why != "" {
			fmt.Fprintf(w, "     why: %s\n", s.Why)
		}
		if s.TradeOff != "" {
			fmt.Fprintf(w, "     trade-off: %s\n", s.TradeOff)
		}
	}
	if len(d.Ladder) == 0 {
		fmt.Fprintln(w, "  No step is left: every value is at its minimum.")
	}
	if len(d.Advice) > 0 {
		fmt.Fprintf(w, "\nGood to know:\n  %s\n", strings.Join(d.Advice, "\n  "))
	}
}
