package sharedir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// descriptionStem begins the file names of an experiment's descriptions. The newest has the highest number.
const descriptionStem = "experiment"

// longestStep is the largest accepted step between the numbers of consecutive descriptions or sessions. Numbers grow by
// one, and some get lost. A number further away was planted to win forever, and is ignored.
const longestStep = 1000

// Announce writes the description of an experiment into its folder, so that workers can join. The shared folder must
// exist. A folder of another experiment is an error.
func Announce(dir string, w membership.Welcome) error {
	shared := filepath.Dir(filepath.Dir(dir))
	if info, err := os.Stat(shared); err != nil {
		return explain(shared, err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder. Try: another --shared DIR", shared)
	}
	if err := files.MakeFolder(filepath.Join(dir, base), 0o777); err != nil {
		return explain(dir, err)
	}
	t := baseOf(dir)
	known, number, err := description(t)
	if err != nil {
		return explain(dir, err)
	}
	if known != nil && known.Experiment != w.Experiment {
		return fmt.Errorf("the shared folder %s belongs to experiment %s, not %s. Try: another --shared DIR, or --experiment %[2]s, "+
			"or remove %s-* in %s if a stranger wrote it",
			dir, membership.Tidy(known.Experiment, 64), w.Experiment, descriptionStem, filepath.Join(dir, base))
	}
	w.Round, w.Time = 0, 0 // the answer to a hello carries these
	if known != nil && sameWelcome(*known, w) {
		return nil
	}
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if _, err := t.put(".", fmt.Sprintf("%s-%08d", descriptionStem, number+1), "json", data); err != nil {
		return explain(dir, err)
	}
	return nil
}

func sameWelcome(a, b membership.Welcome) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// numbered is a description's file with the number from its name.
type numbered struct {
	entry
	number int
}

// descriptions lists the valid descriptions, newest first.
func descriptions(t *tree) ([]numbered, error) {
	names, err := t.list(".")
	if err != nil {
		return nil, err
	}
	var found []numbered
	for _, name := range names {
		e, ok := parseName(name)
		if !ok {
			continue
		}
		text, ok := strings.CutPrefix(e.stem, descriptionStem+"-")
		if n, err := strconv.Atoi(text); ok && err == nil && n >= 0 && len(text) == 8 {
			found = append(found, numbered{e, n})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return a.number - b.number })
	before := 0
	for i, f := range found {
		if f.number > before+longestStep {
			found = found[:i]
			break
		}
		before = f.number
	}
	slices.Reverse(found)
	return found, nil
}

// description returns the newest complete description and the highest number, nil if there is none yet. Old
// descriptions stay because they are small and few.
func description(t *tree) (*membership.Welcome, int, error) {
	found, err := descriptions(t)
	if err != nil {
		return nil, 0, err
	}
	highest := 0
	for i, f := range found {
		if i == 0 {
			highest = f.number
		}
		data, err := t.take(".", f.entry, membership.MaxMessageBytes)
		var w membership.Welcome
		if err != nil || json.Unmarshal(data, &w) != nil {
			continue // incomplete, or not written by swarm
		}
		return &w, highest, nil
	}
	return nil, highest, nil
}
