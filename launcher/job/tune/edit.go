package tune

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Edits are the changes to the training's files that --apply made, or that --dry-run shows.
type Edits struct {
	Applied bool   `json:"applied"`
	Files   []File `json:"files"` // files with values that differ
	Diff    string `json:"diff"`
}

// File is one of the training's files.
type File struct {
	Path  string `json:"path"`
	Edits []Edit `json:"edits"`
}

// Edit is one value of a file.
type Edit struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
	Line int    `json:"line"`
}

// state returns the folder with the records of --apply, for --undo.
func state(home layout.Home) string { return home.Path("tune") }

// edit writes the recommended values, or with --dry-run only lists the changes.
func (t *Answer) edit() error {
	if !t.result.Fits && t.o.Apply {
		return fit.NoRoom(fmt.Errorf("nothing is written: no estimate says that a batch of %d of %s fits. Try: swarm tune without --apply for details, "+
			"or --profile -- COMMAND to measure", t.result.Batch, t.w.Name))
	}
	if assumed := t.result.Assumed(); t.o.Apply && len(assumed) > 0 {
		return refuseAssumed(assumed)
	}
	changes, err := t.changes()
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return &configs.Error{
			Problem: "profile " + t.w.Name + " has no files and keys for its values", Remedy: "write them yourself, or add place: FILE:KEY to its values",
		}
	}
	edition, err := settings.Prepare(t.o.Dir, changes)
	if err != nil {
		return err
	}
	t.edits = &Edits{Files: []File{}, Diff: edition.Diff()}
	for _, f := range edition.Files() {
		file := File{Path: f.Path, Edits: []Edit{}}
		for _, e := range f.Edits {
			file.Edits = append(file.Edits, Edit{e.Key, e.From, e.To, e.Line})
		}
		t.edits.Files = append(t.edits.Files, file)
	}
	if !t.o.Apply || len(t.edits.Files) == 0 {
		return nil
	}
	if err := edition.Apply(state(t.s.Home)); err != nil {
		return err
	}
	t.edits.Applied = true
	return nil
}

// refuseAssumed returns the error for unconfirmed values, and how to confirm each.
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
		"--dir with the training's folder, or if the values are right: "+strings.Join(mend, ", "))

}

// changes returns the decided values with their places. A profile may be untrusted, so its places must be within the
// folder.
func (t *Answer) changes() (changes []settings.Change, err error) {
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

// Undone is a file in swarm tune --undo -o json.
type Undone struct {
	Path string `json:"path"`
	Left string `json:"left"` // why it was left as it is; empty if it was restored
}

// Undo restores the training's files from before the last --apply. It refuses if a file was edited since, unless
// Options.Force is set.
func Undo(home layout.Home, o Options) ([]Undone, error) {
	restored, err := settings.Undo(state(home), o.Dir, o.Force)
	if err != nil {
		return nil, err
	}
	list := []Undone{}
	for _, r := range restored {
		list = append(list, Undone{r.Path, r.Left})
	}
	return list, nil
}
