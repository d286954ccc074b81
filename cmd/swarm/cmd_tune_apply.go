package main

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// tuneEdits are what --apply did to the training's files, or --dry-run found to do.
type tuneEdits struct {
	Applied bool       `json:"applied"`
	Files   []tuneFile `json:"files"` // those whose values aren't right already
	Diff    string     `json:"diff"`
}

type tuneFile struct {
	Path  string     `json:"path"`
	Edits []tuneEdit `json:"edits"`
}

type tuneEdit struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
	Line int    `json:"line"`
}

// tuneState is the folder in which what --apply wrote is remembered for --undo.
func (g *globals) tuneState() string { return g.home.Path("tune") }

// edit writes the recommended values, or says what it would write.
func (t *tuning) edit(g *globals) error {
	if !t.result.Fits && t.o.apply {
		return fit.NoRoom(fmt.Errorf("nothing is written: nothing says that a batch of %d of %s fits. Try: swarm tune without --apply tells more, "+
			"--profile -- COMMAND measures", t.result.Batch, t.w.Name))
	}
	if assumed := t.result.Assumed(); t.o.apply && len(assumed) > 0 {
		return refuseAssumed(assumed)
	}
	changes, err := t.changes()
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return &configs.Error{
			Problem: "profile " + t.w.Name + " names no place for its values", Remedy: "write them yourself, or add place: FILE:KEY to its values",
		}
	}
	edition, err := settings.Prepare(t.o.dir, changes)
	if err != nil {
		return err
	}
	t.edits = &tuneEdits{Files: []tuneFile{}, Diff: edition.Diff()}
	for _, f := range edition.Files() {
		file := tuneFile{Path: f.Path, Edits: []tuneEdit{}}
		for _, e := range f.Edits {
			file.Edits = append(file.Edits, tuneEdit{e.Key, e.From, e.To, e.Line})
		}
		t.edits.Files = append(t.edits.Files, file)
	}
	if !t.o.apply || len(t.edits.Files) == 0 {
		return nil
	}
	if err := edition.Apply(g.tuneState()); err != nil {
		return err
	}
	t.edits.Applied = true
	return nil
}

// refuseAssumed names the values that nobody has confirmed, and what confirms each.
func refuseAssumed(assumed []workload.Assumption) error {
	var named, mend []string
	for _, a := range assumed[:min(3, len(assumed))] {
		what := a.Name + " " + a.Value.Value
		if a.Stage != "" {
			what += " in stage " + a.Stage
		}
		named = append(named, what+" ("+a.Why+")")
		if a.Stage == "" {
			mend = append(mend, "--set "+a.Name+"="+a.Value.Value)
		} else {
			mend = append(mend, "a value in "+strings.Join(a.Places, ", "))
		}
	}
	if more := len(assumed) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fail.Usage(fmt.Errorf("nothing is written: the memory estimate assumes %s", strings.Join(named, ", ")),
		"--dir with the training's folder, or where the values are right: "+strings.Join(mend, ", "))

}

// changes are the decided values at their places. A profile may be a stranger's: its places stay within the folder.
func (t *tuning) changes() (changes []settings.Change, err error) {
	add := func(values []workload.Value) error {
		for _, v := range values {
			if !v.Decided {
				continue
			}
			for _, text := range v.Places {
				place, err := settings.ParsePlace(text)
				if err != nil {
					return err
				}
				place.Within = true
				changes = append(changes, settings.Change{Place: place, To: v.Value})
			}
		}
		return nil
	}
	if err := add(t.result.Values); err != nil {
		return nil, err
	}
	for _, s := range t.result.Stages {
		if err := add(s.Values); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func (e *tuneEdits) print(w *table.Page) {
	switch {
	case len(e.Files) == 0:
		fmt.Fprintln(w, "\nThe files have these values already.")
	case !e.Applied:
		w.Println()
		w.Lines(strings.Split(strings.TrimSuffix(e.Diff, "\n"), "\n")) // a diff stays one
	default:
		fmt.Fprintln(w, "\nWritten:")
		for _, f := range e.Files {
			for _, edit := range f.Edits {
				fmt.Fprintf(w, "  %s:%d  %s: %s -> %s\n", f.Path, edit.Line, edit.Key, edit.From, edit.To)
			}
		}
		fmt.Fprintln(w, "  A backup is beside each file; swarm tune --undo puts them back.")
	}
}

// undone is a file in swarm tune --undo -o json.
type undone struct {
	Path string `json:"path"`
	Left string `json:"left"` // why it was left as it is; empty where it was put back
}

func undoTune(g *globals, o *tuneOptions) error {
	restored, err := settings.Undo(g.tuneState(), o.dir, o.force)
	if err != nil {
		return err
	}
	list := []undone{}
	for _, r := range restored {
		list = append(list, undone{r.Path, r.Left})
	}
	if o.output == "json" {
		return writeJSON(g.stdout, list)
	}
	for _, r := range list {
		line := "put back  " + r.Path
		if r.Left != "" {
			line = "left      " + r.Path + ": " + r.Left
		}
		if _, err := fmt.Fprintln(g.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
