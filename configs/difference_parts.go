package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// members compares the models of two mixed swarms by name. The key models already reports which models there are and
// how many nodes each has. If that key differs, members lists only differences in the settings of models that both
// sides have.
func (d *differences) members(before, after Config) {
	name := func(m Member) string { return m.Model }
	sameModels := before.Models == after.Models
	for pair := range pairs(before.Members, after.Members, name) {
		key := "members." + keyPart(pair.name)
		a, b := pair.before, pair.after
		if a == nil || b == nil {
			if sameModels {
				d.texts(key, ClassExperiment, memberText(a), memberText(b))
			}
			continue
		}
		if sameModels {
			d.compare(key+".nodes", ClassExperiment, a.Nodes, b.Nodes)
		}
		d.compare(key+".learning_rate", ClassOf("learning_rate"), a.LearningRate, b.LearningRate)
		d.compare(key+".micro_batch", ClassOf("micro_batch"), a.MicroBatch, b.MicroBatch)
	}
	if sameModels {
		d.order("members.order", uniqueNames(before.Members, name), uniqueNames(after.Members, name))
	}
}

func memberText(m *Member) string {
	if m == nil {
		return absent
	}
	return strconv.Itoa(m.Nodes) + " nodes"
}

// mixture compares two mixtures task by task: weights, parameters, tasks of one side only, and the order, because
// draws depend on the order.
func (d *differences) mixture(before, after []TaskSpec) {
	name := func(t TaskSpec) string { return t.Name }
	for pair := range pairs(before, after, name) {
		key := MixtureKey + "." + keyPart(pair.name)
		a, b := pair.before, pair.after
		if a == nil || b == nil {
			d.texts(key, ClassExperiment, taskText(a), taskText(b))
			continue
		}
		d.compare(key+".weight", ClassExperiment, a.Weight, b.Weight)
		params := slices.AppendSeq(slices.Collect(maps.Keys(a.Params)), maps.Keys(b.Params))
		slices.Sort(params)
		for _, param := range slices.Compact(params) {
			d.texts(key+".params."+keyPart(param), ClassExperiment, paramText(a.Params, param), paramText(b.Params, param))
		}
	}
	d.order(MixtureKey+".order", uniqueNames(before, name), uniqueNames(after, name))
}

func taskText(t *TaskSpec) string {
	if t == nil {
		return absent
	}
	return "weight " + valueText(t.Weight)
}

// order adds an entry if the names in both lists have a different order.
func (d *differences) order(key string, before, after []string) {
	x, y := common(before, after), common(after, before)
	d.texts(key, ClassExperiment, strings.Join(x, ", "), strings.Join(y, ", "))
}

// common returns the names of list that other has, too, formatted as parts of keys.
func common(list, other []string) (out []string) {
	has := map[string]bool{}
	for _, name := range other {
		has[name] = true
	}
	for _, name := range list {
		if has[name] {
			out = append(out, keyPart(name))
		}
	}
	return out
}

// plainPart matches names that a key can contain unquoted. Other names, from imported databases, are quoted.
var plainPart = regexp.MustCompile(`^[A-Za-z0-9_./@+-]{1,200}(\[[0-9]+\])?$`)

func keyPart(name string) string {
	if plainPart.MatchString(name) {
		return name
	}
	return quote(name)
}

// paramText formats a task's parameter as JSON after a round trip, so that types that JSON doesn't distinguish
// compare as equal.
func paramText(params map[string]any, name string) string {
	value, ok := params[name]
	if !ok {
		return absent
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var stored any
	if err := json.Unmarshal(data, &stored); err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(stored); err != nil {
		return err.Error()
	}
	return visible(strings.TrimSpace(b.String()))
}

// visible escapes characters that a terminal doesn't show and JSON doesn't escape.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// pair is an entry of two lists with the same name; nil on the side without it.
type pair[T any] struct {
	name          string
	before, after *T
}

// pairs yields the entries of both lists in the order of the first, then the entries only in the second. Entries with
// the same name are paired by occurrence: first with first, then second with second. The second occurrence is called
// name[2].
func pairs[T any](before, after []T, name func(T) string) iter.Seq[pair[T]] {
	return func(yield func(pair[T]) bool) {
		names, others := uniqueNames(before, name), uniqueNames(after, name)
		at := map[string]int{}
		for i, n := range others {
			at[n] = i
		}
		for i, n := range names {
			p := pair[T]{name: n, before: &before[i]}
			if j, both := at[n]; both {
				p.after = &after[j]
				delete(at, n)
			}
			if !yield(p) {
				return
			}
		}
		for i, n := range others {
			if j, left := at[n]; left && j == i && !yield(pair[T]{name: n, after: &after[i]}) {
				return
			}
		}
	}
}

// uniqueNames returns the entries' names. A repeated name gets its number: bf[2].
func uniqueNames[T any](list []T, name func(T) string) []string {
	seen := map[string]int{}
	var names []string
	for _, item := range list {
		n := name(item)
		if seen[n]++; seen[n] > 1 {
			n += "[" + strconv.Itoa(seen[n]) + "]"
		}
		names = append(names, n)
	}
	return names
}
