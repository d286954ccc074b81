package workload

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// Sources of a value that neither a file nor a flag decided.
const (
	SourceDefault     = "profile's default"
	SourceRecommended = "profile's recommendation"
	SourceRule        = "profile's rule"
	SourceSet         = "--set"
	SourceComputed    = "computed"      // by the profile's formulas
	SourcePublished   = "published row" // of the profile's source
	SourceMeasured    = "measured"      // by a line through measurements
)

// Origin is the source of a value.
type Origin struct {
	Source  string `json:"source"`  // FILE:LINE, or one of the Source constants
	File    string `json:"file"`    // file that has the value; "": none
	Line    int    `json:"line"`    // in File, from 1; 0 without a file
	Current string `json:"current"` // current value in File
	Used    bool   `json:"used"`    // the expected memory depends on it
	Assumed bool   `json:"assumed"` // neither a file nor a flag sets it: it is the profile's default, or places differ
	Why     string `json:"why"`     // why it is assumed, or why the value of --set is not written
}

// Current returns the profile with the values of the training's files in place of its defaults. Batch and
// accumulation keep their defaults, because they are the result.
func Current(w configs.Workload, readings []configs.WorkloadReading) configs.Workload {
	w.Values, w.Stages = slices.Clone(w.Values), slices.Clone(w.Stages)
	for i := range w.Stages {
		w.Stages[i].Values = slices.Clone(w.Stages[i].Values)
	}
	for _, r := range readings {
		if !r.Usable {
			continue
		}
		for i := range w.Values {
			if v := &w.Values[i]; r.Stage == "" && v.Name == r.Name && v.Role == "" {
				v.Start = r.Text
			}
		}
		for _, s := range w.Stages {
			for j := range s.Values {
				if v := &s.Values[j]; s.Name == r.Stage && v.Name == r.Name {
					v.Value = r.Text
				}
			}
		}
	}
	return w
}

// reading returns the files' reading of a value. found is false if the files were not read.
func (q question) reading(stage, name string) (r configs.WorkloadReading, found bool) {
	at := slices.IndexFunc(q.r.Read, func(r configs.WorkloadReading) bool { return r.Stage == stage && r.Name == name })
	if at < 0 {
		return r, false
	}
	return q.r.Read[at], true
}

// origin returns the origin of a value other than the batch and the accumulation. decided is the source that decided
// it here, or "".
func (q question) origin(stage, name, decided string) Origin {
	r, looked := q.reading(stage, name)
	out := Origin{Source: decided, File: r.File, Line: r.Line, Current: r.Text, Used: q.used(stage, name)}
	switch {
	case decided != "":
		if !q.writable(stage, name, decided) {
			out.Why = r.Problem
		}
		return out
	case r.Usable:
		out.Source, out.Assumed, out.Why = fmt.Sprintf("%s:%d", r.File, r.Line), r.Problem != "", r.Problem
		return out
	}
	out.Source, out.Assumed, out.Why = SourceDefault, true, r.Problem
	if !looked {
		out.Why = "the profile has no file and key for it"
		if v, _ := q.w.Value(name); len(v.Places) > 0 {
			out.Why = "no file was read"
		}
	}
	return out
}

// writable reports whether a decided value can be written to its place. If --set confirms a value that can't be read,
// the file stays as it is.
func (q question) writable(stage, name, decided string) bool {
	r, looked := q.reading(stage, name)
	return decided != SourceSet || !looked || r.Usable
}

// used reports whether the memory depends on a value: by its name in a formula, or in the rule of such a value.
func (q question) used(stage, name string) bool {
	if q.r.Fitted != nil || len(q.w.Memory) == 0 || stage == "" && q.inEveryStage(name) {
		return false
	}
	return slices.Contains(q.counted(), name)
}

// counted returns the names of the values that the memory depends on.
func (q question) counted() []string {
	var names []string
	add := func(f configs.Formula) {
		for _, name := range f.Names() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, m := range q.w.Memory {
		add(m.Bytes)
	}
	for i := 0; i < len(names); i++ {
		v, _ := q.w.Value(names[i])
		add(v.Rule)
	}
	return names
}

func (q question) inEveryStage(name string) bool {
	for _, s := range q.w.Stages {
		if _, found := s.Value(name); !found {
			return false
		}
	}
	return len(q.w.Stages) > 0
}

// asPublished reports whether all values behind the published figures are the profile's own.
func (q question) asPublished() bool {
	counted := q.counted()
	for i, v := range q.own.Values {
		n, fixed := q.r.Fixed[v.Name]
		switch {
		case fixed && (v.Role != "" || !same(number(n, v.Start), v.Start)):
			return false
		case !fixed && slices.Contains(counted, v.Name) && !q.inEveryStage(v.Name) && v.Role == "" && !same(q.w.Values[i].Start, v.Start):
			return false
		}
		for j, s := range q.own.Stages {
			own, inStage := s.Value(v.Name)
			now, _ := q.w.Stages[j].Value(v.Name)
			if inStage && (fixed && !same(number(n, own.Value), own.Value) || !fixed && slices.Contains(counted, v.Name) && !same(now.Value, own.Value)) {
				return false
			}
		}
	}
	return true
}

// filesGPUs returns the files' number of GPUs, from the value with the rule gpus; 0: none.
func filesGPUs(w configs.Workload) int {
	for _, v := range w.Values {
		if n, numeric := configs.Number(v.Start); v.Rule.String() == configs.NameGPUs && numeric && n >= 1 && n <= maxGPUs && n == float64(int(n)) {
			return int(n)
		}
	}
	return 0
}

// Devices returns the number of GPUs of a request: its own, else the files', else 1.
func Devices(w configs.Workload, r Request) int {
	if r.Devices > 0 {
		return r.Devices
	}
	return max(1, filesGPUs(Current(w, r.Read)))
}

// Assumed returns the assumed values that the expected memory depends on. Values of a stage have its name.
func (r Recommendation) Assumed() []Assumption {
	var list []Assumption
	add := func(stage string, values []Value) {
		for _, v := range values {
			if v.Used && v.Assumed {
				list = append(list, Assumption{Stage: stage, Value: v})
			}
		}
	}
	add("", r.Values)
	for _, s := range r.Stages {
		add(s.Name, s.Values)
	}
	return list
}

// Assumption is an assumed value.
type Assumption struct {
	Stage string // "": all stages
	Value
}
