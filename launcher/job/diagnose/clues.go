package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Workload identifies the profile of the ladder.
type Workload struct {
	Name    string   `json:"name"`
	Guessed bool     `json:"guessed"`
	From    []string `json:"from"` // evidence for the guess
}

// Value is a value of the failed training.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // its source: "line 3 of the log", "run_grpo.sh:12", "presumed: the profile's start"
	Note  string `json:"note,omitempty"`
}

// profilesOf returns the candidate profiles of the log: the named one, or all.
func profilesOf(named string) ([]configs.Workload, error) {
	if named != "" {
		w, err := settings.LoadWorkload(named)
		return []configs.Workload{w}, err
	}
	var list []configs.Workload
	for _, name := range configs.Workloads() {
		w, err := configs.LoadWorkload(name)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// commonBatch and commonAccumulate are common names of these values, for trainings without a profile. The most
// specific names come first.
var (
	commonBatch = []string{"per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu", "train_batch_size",
		"training.batch_size", "batch_size"}
	commonAccumulate = []string{"gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum_steps", "accumulation_steps"}
)

// clues collects the training's settings from the log.
type clues struct {
	profiles []configs.Workload
	found    *shortage.Clues
	owners   map[string]int // number of profiles with each key
}

// presumed is the prefix of Value.From for a value that is neither in the log nor in a file.
const presumed = "presumed"

func newClues(profiles []configs.Workload) *clues {
	c := &clues{profiles: profiles, owners: map[string]int{}}
	keys := slices.Concat(commonBatch, commonAccumulate)
	var words []string
	for _, w := range profiles {
		words = append(words, wordsOf(w)...)
		for key := range keysOf(w) {
			c.owners[key]++
			keys = append(keys, key)
		}
	}
	c.found = shortage.NewClues(keys, words)
	return c
}

// wordsOf returns the path components that indicate a profile: its name, and the name's first word if it has at least
// 4 letters.
func wordsOf(w configs.Workload) []string {
	first, _, _ := strings.Cut(w.Name, "-")
	if len(first) < 4 {
		return []string{w.Name}
	}
	return []string{w.Name, first}
}

// keysOf returns the keys that a profile's values may have in a log, with the name of each key's value.
func keysOf(w configs.Workload) map[string]string {
	keys := map[string]string{}
	for _, v := range w.Values {
		keys[v.Name] = v.Name
		for _, key := range placeKeys(v) {
			keys[key] = v.Name
			keys[key[strings.LastIndexByte(key, '.')+1:]] = v.Name
		}
	}
	return keys
}

// placeKeys returns the keys of a value's places that can occur in a log.
func placeKeys(v configs.WorkloadValue) []string {
	var keys []string
	for _, text := range v.Places {
		if p, err := settings.ParsePlace(text); err == nil && !strings.ContainsAny(p.Key, "# []") {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// workload returns the named profile, or the one that the log indicates by keys of no other profile and by paths. The
// *Workload is nil if no profile, or more than one, matches best.
func (c *clues) workload(named string) (configs.Workload, *Workload) {
	if named != "" {
		return c.profiles[0], &Workload{Name: c.profiles[0].Name, From: []string{}}
	}
	best, second, at := 0, 0, -1
	var because []string
	for i, w := range c.profiles {
		score, from := c.score(w)
		if score > best {
			best, second, at, because = score, best, i, from
		} else if score > second {
			second = score
		}
	}
	if best < 2 || best == second {
		return configs.Workload{}, nil
	}
	return c.profiles[at], &Workload{Name: c.profiles[at].Name, Guessed: true, From: because}
}

// score rates how strongly the log indicates a profile: 2 for a full key such as data.train_batch_size or for a path,
// 1 for a bare name.
func (c *clues) score(w configs.Workload) (score int, from []string) {
	counted := map[string]bool{}
	keys := keysOf(w)
	names := make([]string, 0, len(keys))
	for key := range keys {
		names = append(names, key)
	}
	slices.SortFunc(names, func(a, b string) int {
		return len(b) - len(a) + 1000*strings.Count(b, ".") - 1000*strings.Count(a, ".")
	})
	for _, key := range names {
		clue, ok := c.found.Found(key)
		if !ok || c.owners[key] > 1 || counted[keys[key]] {
			continue
		}
		counted[keys[key]] = true
		score++
		if strings.Contains(key, ".") {
			score++
		}
		from = append(from, fmt.Sprintf("%s=%s in line %d", key, clue.Value, clue.Line))
	}
	slices.Sort(from)
	for _, word := range wordsOf(w) {
		if path := c.found.Path(word); path != "" {
			score += 2
			from = append(from, "the path "+path)
			break
		}
	}
	return score, from
}

// values returns the values of the failed training, from the log, else from the training's files in dir, else from
// the profile.
func (c *clues) values(w configs.Workload, dir string) []Value {
	list := []Value{}
	inFiles := map[string]configs.WorkloadReading{}
	for _, r := range settings.ReadWorkload(dir, w) {
		if r.Stage == "" {
			inFiles[r.Name] = r
		}
	}
	for _, v := range w.Values {
		value := Value{Name: v.Name, Value: v.Start, From: presumed + ": the profile's start"}
		r := inFiles[v.Name]
		inFile, where, known := r.Text, fmt.Sprintf("%s:%d", r.File, r.Line), r.Usable
		if known {
			value.Value, value.From = inFile, where
		}
		if r.File != "" {
			value.Note = r.Problem
		}
		for _, key := range append(placeKeys(v), namesOf(w, v.Name)...) {
			if clue, ok := c.found.Found(key); ok && alike(clue.Value, v.Start) {
				value.Value, value.From = clue.Value, fmt.Sprintf("line %d of the log", clue.Line)
				if known && inFile != clue.Value {
					value.Note = fmt.Sprintf("%s has %s now", where, inFile)
				}
				break
			}
		}
		if value.Value != "" {
			list = append(list, value)
		}
	}
	return list
}

// alike reports whether a word of a log can be a value. Prose can't replace a number: "batch_size = faster training".
func alike(found, start string) bool {
	_, err := strconv.ParseFloat(start, 64)
	_, foundErr := strconv.ParseFloat(found, 64)
	return err != nil || foundErr == nil
}

// namesOf returns the bare names of one value, sorted.
func namesOf(w configs.Workload, name string) []string {
	var names []string
	for key, of := range keysOf(w) {
		if of == name && !strings.Contains(key, ".") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}
