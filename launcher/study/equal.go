package study

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

// fact is a property of a run, outside its configuration, that affects training: nodes, device, precision, weights.
type fact struct {
	key   string
	fresh string // value for a new run of the item
	has   string // value for the item's existing or future run
}

// compare sets the item's facts. fresh is the plan of a new run, and err the reason if none is possible at the
// moment. inputs are those of a new run. used are those of the item's run.
func (i *Item) compare(fresh fit.Plan, err error, inputs, used map[string]string) {
	i.facts = []fact{
		{"nodes", strconv.Itoa(fresh.Nodes), ""}, {"device", fresh.Device, ""},
		{"precision", i.p.Config.ResolvedPrecision(fresh.Device == fit.DeviceCUDA), ""},
	}
	for _, key := range plan.AutoKeys {
		i.facts = append(i.facts, fact{key.Name, key.In(i.fresh), ""})
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		i.facts = append(i.facts, fact{"sha256 of " + name, fmt.Sprintf("%.12s", inputs[name]), fmt.Sprintf("%.12s", used[name])})
	}
	i.look()
	for k, f := range i.facts {
		if err != nil {
			i.facts[k].fresh = f.has
		}
	}
}

// look updates the facts with the values of the item's existing or future run.
func (i *Item) look() {
	nodes, device, precision := i.p.Plan.Nodes, i.p.Plan.Device, i.p.Config.ResolvedPrecision(i.p.Plan.Device == fit.DeviceCUDA)
	if i.r.Run != nil {
		nodes, device, precision = i.r.Run.Nodes, i.r.Plan.Device, i.r.Precision()
	}
	now := map[string]string{"nodes": strconv.Itoa(nodes), "device": device, "precision": precision}
	for _, key := range plan.AutoKeys {
		now[key.Name] = key.In(i.p.Config)
	}
	for k, has := range now {
		if at := slices.IndexFunc(i.facts, func(f fact) bool { return f.key == k }); at >= 0 {
			i.facts[at].has = has
		}
	}
}

// recheck checks a run that another process has done since the sweep began. The run counts if it matches the
// sweep's settings and the other runs.
func (s *Sweep) recheck(ctx context.Context, item *Item) error {
	if _, _, err := item.check(ctx, false); err != nil && !errors.Is(err, coordinator.ErrFinished) {
		return err
	}
	item.look()
	return unequal(s.items)
}

// fact returns the item's fact with that key.
func (i *Item) fact(key string) (fact, bool) {
	at := slices.IndexFunc(i.facts, func(f fact) bool { return f.key == key })
	if at < 0 {
		return fact{}, false
	}
	return i.facts[at], true
}

// unequal rejects a sweep that would compare runs which differ in more than their configurations. New runs would be
// equal in nodes, device, precision and weights, but existing ones may differ.
func unequal(items []*Item) error {
	var keys []string
	for _, item := range items {
		for _, f := range item.facts {
			if !slices.Contains(keys, f.key) {
				keys = append(keys, f.key)
			}
		}
	}
	var lines []string
	// values of existing or imported runs, for the keys with a flag that keeps them
	had := map[string]map[string]bool{"nodes": {}, "external_correction": {}, "eval_draws": {}}
	for _, key := range keys {
		groups := map[string][]*Item{} // by the value of new runs
		for _, item := range items {
			if f, ok := item.fact(key); ok {
				groups[f.fresh] = append(groups[f.fresh], item)
			}
		}
		for _, fresh := range slices.Sorted(maps.Keys(groups)) {
			seen := map[string]int{}
			for _, item := range groups[fresh] {
				f, _ := item.fact(key)
				seen[f.has]++
			}
			if len(seen) < 2 {
				continue
			}
			shown := map[string]bool{}
			for _, item := range groups[fresh] {
				f, _ := item.fact(key)
				if values := had[key]; values != nil && item.r.Run != nil {
					values[f.has] = true
				}
				if !shown[f.has] {
					shown[f.has] = true
					lines = append(lines, differs(item, f, seen[f.has]-1))
				}
			}
		}
	}
	if lines == nil {
		return nil
	}
	try, flags := "another --home, so that all runs are new", ""
	for _, key := range []string{"nodes", "external_correction", "eval_draws"} {
		if len(had[key]) == 1 {
			for value := range had[key] {
				flags += "--" + strings.ReplaceAll(key, "_", "-") + " " + value + " "
			}
		}
	}
	if flags != "" {
		try = flags + "for all of them, or " + try
	}
	return fail.Usage(fail.List("the sweep would compare runs that differ in more than their configurations", lines), try)
}

// differs describes an item's run and counts the other runs with the same value.
func differs(item *Item, f fact, others int) string {
	text := fmt.Sprintf("%s: a new run of %s would have %s", f.key, item, f.has)
	if item.r.Run != nil {
		text = fmt.Sprintf("%s: run %s of %s has %s", f.key, item.r.Run.Run, item, f.has)
	}
	switch {
	case others == 1:
		text += ", and so does one other run"
	case others > 1:
		text += fmt.Sprintf(", and so do %d other runs", others)
	}
	return text
}

// unlikeNodes returns a warning if configurations get different numbers of nodes without the user's request, else
// "".
func (o *Options) unlikeNodes(items []*Item) string {
	var arms []string
	counts := map[string]bool{}
	for _, item := range items {
		f, ok := item.fact("nodes")
		if !ok || o.NodesGiven || item.Nodes > 0 {
			continue
		}
		counts[f.has] = true
		if arm := item.experiment() + " " + f.has; !slices.Contains(arms, arm) {
			arms = append(arms, arm)
		}
	}
	if len(counts) < 2 {
		return ""
	}
	return "the configurations have different numbers of nodes (" + strings.Join(arms, ", ") + "): --nodes N gives all the same number"
}
