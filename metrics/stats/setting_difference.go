package stats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Effects of a setting: how a difference in the setting affects a comparison. docs/METRICS.md lists the effect of each
// setting.
const (
	EffectSharing   = "sharing"   // how nodes share, the subject of SAPO: always under study
	EffectResult    = "result"    // a difference alone could cause the result
	EffectQuestions = "questions" // rewards come from other questions and are not comparable by any measure
	EffectNone      = "none"      // no effect on the result. Includes rounds, because only the rounds of both sides are compared
	EffectName      = "name"      // a name
)

// RunDifference is one setting in which two runs differ.
type RunDifference struct {
	Key     string // learning_rate, tasks.mixture.bf.weight, nodes, torch
	Subject string // several keys of one subject are one difference: tasks.mixture; empty: Key
	Effect  string // one of Effect*
	A, B    string // the values as text
}

func (d RunDifference) subject() string { return cmp.Or(d.Subject, d.Key) }

// Roles of a SettingDifference.
const (
	RoleStudy      = "study"      // the subject of the comparison
	RoleConfounder = "confounder" // could also cause the result: the pair is not comparable
	RoleDespite    = "despite"    // could cause the result, and the user allowed it
	RoleOther      = "other"      // shown, does not prevent the comparison
)

// SettingDifference is a setting in which two rows differ. If the runs of one row have several values, " or " separates
// them.
type SettingDifference struct {
	Key  string `json:"key"`
	A    string `json:"a"`
	B    string `json:"b"`
	Role string `json:"role"` // study, confounder, despite, other

	Subject string `json:"-"` // several keys of one subject are one difference
	Effect  string `json:"-"` // one of Effect*
}

// RowDifference is a setting in which a row differs from the baseline.
type RowDifference struct {
	Key      string `json:"key"`
	Baseline string `json:"baseline"`
	Value    string `json:"value"`
	Role     string `json:"role"`
}

// decides reports whether a difference puts two runs into separate rows.
func (o CompareOptions) decides(d RunDifference) bool {
	return d.Effect != EffectNone && d.Effect != EffectName && !o.despite(d.Key, d.subject())
}

func (o CompareOptions) despite(key, subject string) bool {
	return slices.Contains(o.Despite, key) || slices.Contains(o.Despite, subject)
}

// differ lists the settings in which two runs differ.
func (o CompareOptions) differ(a, b store.Totals) []RunDifference {
	if o.Differ != nil {
		return o.Differ(a, b)
	}
	return plainDifferences(a, b)
}

// differences lists the settings in which two groups differ, with their roles.
func (o CompareOptions) differences(a, b group) []SettingDifference {
	var list []SettingDifference
	values := map[string]*[2][]string{}
	note := func(x, y store.Totals, left, right int) {
		for _, d := range o.differ(x, y) {
			i := slices.IndexFunc(list, func(s SettingDifference) bool { return s.Key == d.Key })
			if i < 0 {
				i = len(list)
				list, values[d.Key] = append(list, SettingDifference{Key: d.Key, Subject: d.subject(), Effect: d.Effect}), &[2][]string{}
			}
			list[i].Effect = stronger(list[i].Effect, d.Effect)
			sides := values[d.Key]
			sides[left], sides[right] = append(sides[left], d.A), append(sides[right], d.B)
		}
	}
	for _, x := range a.kinds {
		for _, y := range b.kinds {
			note(x, y, 0, 1)
		}
	}
	for side, g := range []group{a, b} {
		for i, x := range g.kinds {
			for _, y := range g.kinds[:i] {
				note(x, y, side, side)
			}
		}
	}
	for i := range list {
		list[i].A, list[i].B = oneOf(values[list[i].Key][0]), oneOf(values[list[i].Key][1])
	}
	slices.SortStableFunc(list, func(x, y SettingDifference) int { return strings.Compare(x.Key, y.Key) })
	o.giveRoles(list)
	return list
}

// stronger returns the effect with the greater consequence. A key's effect may depend on its values.
func stronger(a, b string) string {
	order := []string{EffectSharing, EffectQuestions, EffectResult, EffectNone, EffectName}
	return order[max(0, min(slices.Index(order, a), slices.Index(order, b)))]
}

// oneOf lists distinct texts.
func oneOf(texts []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(texts))), " or ")
}

// giveRoles sets the role of each difference. Settings of EffectSharing and those that the study declares are under
// study. If there are none of these, a single difference that could cause the result is under study, unless it changes
// the questions. All other differences that could cause the result are confounders.
func (o CompareOptions) giveRoles(list []SettingDifference) {
	studied := false
	var subjects []string
	for i := range list {
		d := &list[i]
		switch {
		case slices.Contains(o.studied, d.Key), slices.Contains(o.studied, d.Subject), d.Effect == EffectSharing:
			d.Role, studied = RoleStudy, true
		case d.Effect == EffectNone, d.Effect == EffectName:
			d.Role = RoleOther
		case o.despite(d.Key, d.Subject):
			d.Role = RoleDespite
		default:
			d.Role = RoleConfounder
			if !slices.Contains(subjects, d.Subject) {
				subjects = append(subjects, d.Subject)
			}
		}
	}
	if studied || len(subjects) != 1 {
		return
	}
	for i := range list {
		if list[i].Role == RoleConfounder && list[i].Effect != EffectQuestions {
			list[i].Role = RoleStudy
		}
	}
}

// forRow converts the differences of a pair for its row.
func forRow(list []SettingDifference) []RowDifference {
	out := []RowDifference{}
	for _, d := range list {
		out = append(out, RowDifference{d.Key, d.B, d.A, d.Role})
	}
	return out
}

// Confounders returns the differences that make a pair not comparable.
func (p Pair) Confounders() []SettingDifference {
	return slices.DeleteFunc(slices.Clone(p.Differs), func(d SettingDifference) bool { return d.Role != RoleConfounder })
}

// plainDifferences compares the columns of the runs' own rows.
func plainDifferences(a, b store.Totals) []RunDifference {
	var list []RunDifference
	add := func(key, effect, x, y string) {
		if x != y {
			list = append(list, RunDifference{Key: key, Effect: effect, A: x, B: y})
		}
	}
	add("num_train_samples", EffectSharing, strconv.Itoa(a.NumTrainSamples), strconv.Itoa(b.NumTrainSamples))
	add("num_transplant_trees", EffectSharing, strconv.Itoa(a.NumTransplantTrees), strconv.Itoa(b.NumTransplantTrees))
	add("num_generations", EffectResult, strconv.Itoa(a.NumGenerations), strconv.Itoa(b.NumGenerations))
	add("model", EffectResult, a.Model, b.Model)
	add("nodes", EffectResult, strconv.Itoa(UsedNodes(a)), strconv.Itoa(UsedNodes(b)))
	return list
}

// UsedNodes returns the number of nodes that a run trained with: those that did a round, or the planned ones before the
// first round.
func UsedNodes(r store.Totals) int { return cmp.Or(r.NodesSeen, r.Nodes) }
