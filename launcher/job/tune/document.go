package tune

import (
	"strconv"

	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Document is the output of swarm tune -o json.
type Document struct {
	Workload             string `json:"workload"`
	About                string `json:"about"`
	Source               string `json:"source"`
	Chosen               string `json:"chosen"` // why this profile was chosen; empty if it was named
	GPU                  GPU    `json:"gpu"`
	TargetEffectiveBatch int    `json:"target_effective_batch"` // 0: none
	Devices              int    `json:"devices"`
	Estimate             string `json:"estimate"` // published, formula, swarm, measured, none
	workload.Recommendation
	Profile *Profile        `json:"profile"`
	Ladder  []workload.Step `json:"ladder"`
	Edits   *Edits          `json:"edits"`
	Advice  []string        `json:"advice"`
	Next    []string        `json:"next"`
}

// GPU is the target of the recommendation.
type GPU struct {
	Index       *int   `json:"index"` // null: not one of this host's
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
}

// Document returns the recommendation for scripts.
func (t *Answer) Document() Document {
	d := Document{
		Workload: t.w.Name, About: t.w.About, Source: t.w.Source, Chosen: t.how,
		GPU:                  GPU{Name: t.request.GPUName, MemoryTotal: t.request.GPUMemory},
		TargetEffectiveBatch: t.target(), Devices: t.result.Devices, Estimate: t.estimate, Recommendation: t.result, Profile: t.profile,
		Ladder: workload.Ladder(workload.Current(t.w, t.request.Read), t.values()), Edits: t.edits, Advice: append([]string{}, t.w.Advice...), Next: t.next(),
	}
	d.Warnings = append(append([]string{}, d.Warnings...), t.warnings...)
	if t.card != nil {
		d.GPU.Index = &t.card.Index
	}
	return d
}

func (t *Answer) target() int {
	if t.request.TargetEffectiveBatch > 0 {
		return t.request.TargetEffectiveBatch
	}
	return t.w.TargetEffectiveBatch
}

// values returns the recommended values, from which the ladder continues.
func (t *Answer) values() map[string]string {
	values := map[string]string{}
	for _, v := range t.result.Values {
		values[v.Name] = v.Value
	}
	for _, s := range t.result.Stages { // stages have their own values
		for _, v := range s.Values {
			delete(values, v.Name)
		}
	}
	return values
}

// next returns the next commands for the user.
func (t *Answer) next() []string {
	next := []string{}
	if t.edits == nil && t.result.Fits {
		named := ""
		if t.o.Workload != "" {
			named = " --workload " + shell.Quote(t.o.Workload)
		}
		size := " --auto"
		if t.o.Given["gpu-memory"] {
			size = " --gpu-memory " + shell.Quote(t.o.GPUMemory)
		}
		if same := "swarm tune" + named + size + t.o.asGiven(); !t.o.Profile {
			next = append(next, same+" --dry-run")
			if len(t.result.Assumed()) == 0 {
				next = append(next, same+" --apply")
			}
		}
	}
	return append(next, t.w.Next...)
}

// asGiven returns the typed flags that the recommendation depends on.
func (o *Options) asGiven() string {
	var words []string
	if o.Dir != "." {
		words = append(words, "--dir", o.Dir)
	}
	if o.Given["gpu"] {
		words = append(words, "--gpu", strconv.Itoa(o.GPU))
	}
	if o.Given["target-effective-batch"] {
		words = append(words, "--target-effective-batch", strconv.Itoa(o.Target))
	}
	if o.Given["safety-margin"] {
		words = append(words, "--safety-margin", strconv.FormatFloat(o.Margin, 'g', -1, 64))
	}
	if o.Given["devices"] {
		words = append(words, "--devices", strconv.Itoa(o.Devices))
	}
	for _, set := range o.Sets {
		words = append(words, "--set="+set)
	}
	text := ""
	for _, word := range words {
		text += " " + shell.Quote(word)
	}
	return text
}
