package stats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Effects of a setting: what a difference in it can do to a comparison. docs/METRICS.md lists which setting has which.
const (
	EffectSharing   = "sharing"   // how nodes share: what SAPO is about, and therefore always what is studied
	EffectResult    = "result"    // it alone could make the result
	EffectQuestions = "questions" // rewards are of other questions, and no measure of the same
	EffectNone      = "none"      // it doesn't make the result alone; rounds among them, for only rounds that both sides have are compared
	EffectName      = "name"      // what something is called
)

// RunDifference is one setting in which two runs differ.
type RunDifference struct {
	Key     string // learning_rate, tasks.mixture.bf.weight, nodes, torch
	Subject string // of one subject several keys are one difference: tasks.mixture; empty: Key
	Effect  string // one of Effect*
	A, B    string // the values as text
}

func (d RunDifference) subject() string { return cmp.Or(d.Subject, d.Key) }

// Roles of a SettingDifference.
const (
	RoleStudy      = "study"      // it is what the pair compares
	RoleConfounder = "confounder" // it could make the result beside that: the pair is not comparable
	RoleDespite    = "despite"    // it could, and the user said to compare despite it
	RoleOther      = "other"      // it is named, and doesn't stand in the way
)

// SettingDifference is a setting in which two rows differ. Where the runs of one row have several values, these are
// listed with " or " between.
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

// decides tells whether a difference makes another configuration of a run: one that isn't put into one row with it.
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

// differences lists the settings in which two groups differ, and gives each its role.
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

// stronger is the effect that says more: a key may have another with other values.
func stronger(a, b string) string {
	order := []string{EffectSharing, EffectQuestions, EffectResult, EffectNone, EffectName}
	return order[max(0, min(slices.Index(order, a), slices.Index(order, b)))]
}

// oneOf lists different texts.
func oneOf(texts []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(texts))), " or ")
}

// giveRoles says of each difference what it is to the comparison. SAPO's own settings, and those that the study
// declares, are what is studied. Where there is none of these, a single difference that could make the result is what
// is studied, unless it is in the questions. Every other that could is a confounder.
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

// forRow are the differences of a pair as its row has them.
func forRow(list []SettingDifference) []RowDifference {
	out := []RowDifference{}
	for _, d := range list {
		out = append(out, RowDifference{d.Key, d.B, d.A, d.Role})
	}
	return out
}

// Confounders are the differences for which a pair isn't comparable.
func (p Pair) Confounders() []SettingDifference {
	return slices.DeleteFunc(slices.Clone(p.Differs), func(d SettingDifference) bool { return d.Role != RoleConfounder })
}

// plainDifferences are those that the runs' own rows tell of.
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

// UsedNodes is how many nodes a run trained with: those that did a round, before any has those planned.
func UsedNodes(r store.Totals) int { return cmp.Or(r.NodesSeen, r.Nodes) }
