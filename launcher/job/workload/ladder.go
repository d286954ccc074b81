package workload

import (
	"maps"
	"math"

	"github.com/sapo-swarm/swarm/configs"
)

// Step is one remedy, with its edits.
type Step struct {
	Title    string `json:"title"`
	Why      string `json:"why"`
	TradeOff string `json:"trade_off"`
	Expected string `json:"expected"`
	Edits    []Edit `json:"edits"`
}

// Edit changes one value at one place ("": on the command line, if the value has no place).
type Edit struct {
	Value string `json:"value"`
	Place string `json:"place"`
	From  string `json:"from"` // "": unknown
	To    string `json:"to"`
}

// Ladder returns the remaining remedies, in order, for a training with the current values (by value name; missing
// ones count as the profile's start). Each step builds on the one before. Ladder leaves out steps that would change
// nothing. It also leaves out edits that only accompany a change of the batch if the batch is at its minimum.
func Ladder(w configs.Workload, current map[string]string) []Step {
	state := map[string]string{}
	for _, v := range w.Values {
		state[v.Name] = v.Start
	}
	maps.Copy(state, current)
	byStage := map[string]map[string]string{}
	for _, s := range w.Stages {
		byStage[s.Name] = map[string]string{}
		for _, v := range s.Values {
			byStage[s.Name][v.Name] = v.Value
			if text, known := current[v.Name]; known {
				byStage[s.Name][v.Name] = text
			}
		}
	}
	steps := []Step{}
	for _, s := range w.Ladder {
		for range max(1, s.Repeat) {
			edits := take(w, s, state, byStage[s.Stage])
			if len(edits) == 0 {
				break
			}
			steps = append(steps, Step{Title: s.Title, Why: s.Why, TradeOff: s.TradeOff, Expected: s.Expected, Edits: edits})
		}
	}
	return steps
}

// take applies one step to the values, or to those of its stage, and returns the changes.
func take(w configs.Workload, s configs.LadderStep, state, ofStage map[string]string) (edits []Edit) {
	stage, _ := w.Stage(s.Stage)
	batchMoved, hasBatch := false, false
	for _, e := range s.Edits {
		v, _ := w.Value(e.Value)
		hasBatch = hasBatch || v.Role == configs.RoleBatch
	}
	for _, e := range s.Edits {
		v, _ := w.Value(e.Value)
		if v.Role == configs.RoleAccumulate && hasBatch && !batchMoved {
			continue
		}
		at, where := state, v.Places
		if in, found := stage.Value(e.Value); found {
			at = ofStage
			if len(in.Places) > 0 {
				where = in.Places
			}
		}
		from := at[e.Value]
		to := changed(v, from, e.To)
		if same(from, to) {
			continue
		}
		batchMoved = batchMoved || v.Role == configs.RoleBatch
		at[e.Value] = to
		if len(where) == 0 {
			where = []string{""}
		}
		for _, place := range where {
			edits = append(edits, Edit{Value: e.Value, Place: place, From: from, To: to})
		}
	}
	return edits
}

// changed returns the value after an edit. A relative edit leaves a text that is not a number alone.
func changed(v configs.WorkloadValue, from, to string) string {
	operator, n, relative := configs.Relative(to)
	if !relative {
		return to
	}
	is, numeric := configs.Number(from)
	if !numeric {
		return from
	}
	result := is
	switch operator {
	case "/":
		result = is / n
	case "x":
		result = is * n
	case "<=":
		result = min(is, n)
	case ">=":
		result = max(is, n)
	}
	if is == math.Trunc(is) && (operator == "/" || operator == "x") {
		result = math.Floor(result)
	}
	least := v.Min
	if v.Role != "" {
		least = max(1, least)
	}
	// A limit stops a remedy. It doesn't move a value that is already beyond the limit.
	switch {
	case result < is:
		result = max(result, min(is, least))
	case result > is && v.Max > 0:
		result = min(result, max(is, v.Max))
	}
	return number(result, from)
}

// same reports whether two texts are the same value: 0.40 and 0.4, True and true.
func same(a, b string) bool {
	x, isX := configs.Number(a)
	y, isY := configs.Number(b)
	return a == b || isX && isY && x == y
}
