package workload

import (
	"fmt"
	"math"

	"github.com/sapo-swarm/swarm/configs"
)

// numbers returns the inputs of formulas. Later sources override earlier ones: start values, the stage's values, the
// user's fixed values, the batch, and the rules.
func (q question) numbers(batch int, stage configs.Stage) (map[string]float64, error) {
	at := map[string]float64{configs.NameGPUMemory: float64(q.r.GPUMemory), configs.NameGPUs: float64(q.devices)}
	set := func(name, text string) {
		if n, numeric := configs.Number(text); numeric {
			at[name] = n
		}
	}
	for _, v := range q.w.Values {
		set(v.Name, v.Start)
		set(v.Name, v.Recommended)
	}
	for _, v := range stage.Values {
		set(v.Name, v.Value)
	}
	for name, n := range q.r.Fixed {
		at[name] = n
	}
	at[q.batch.Name] = float64(batch)
	for _, v := range q.w.Values {
		if _, fixed := q.r.Fixed[v.Name]; v.Rule.Empty() || fixed {
			continue
		}
		n, err := v.Rule.Eval(at)
		if err != nil {
			return nil, fmt.Errorf("rule of %s: %w", v.Name, err)
		}
		at[v.Name] = clamp(math.Floor(n), v.Min, v.Max)
	}
	return at, nil
}

// clamp limits n to the range from least to most. A most of 0 is no limit.
func clamp(n, least, most float64) float64 {
	if most > 0 {
		n = min(n, most)
	}
	return max(n, least)
}

// components returns the memory of one stage with that batch. total is never below 0.
func (q question) components(batch int, stage configs.Stage) (parts []Component, total int64, err error) {
	if line := q.r.Fitted; line != nil {
		fixed := int64(math.Round(line.Fixed))
		parts = []Component{
			{Name: "fixed", Bytes: fixed, Note: "whatever the batch"},
			{Name: "by the batch", Bytes: line.At(batch) - fixed, Note: fmt.Sprintf("%s a sample", q.size(int64(line.PerSample)))},
		}
		return parts, max(0, line.At(batch)), nil
	}
	at, err := q.numbers(batch, stage)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range q.w.Memory {
		n, err := m.Bytes.Eval(at)
		if err != nil {
			return nil, 0, fmt.Errorf("memory of %s: %w", m.Name, err)
		}
		if math.Abs(n) > 1e18 {
			return nil, 0, fmt.Errorf("memory of %s: %g bytes is impossibly large", m.Name, n)
		}
		parts = append(parts, Component{Name: m.Name, Bytes: int64(math.Round(n)), Note: m.Note})
		total += int64(math.Round(n))
	}
	return parts, max(0, total), nil
}

// stages returns the profile's stages, or one stage without values.
func (q question) stages() []configs.Stage {
	if len(q.w.Stages) == 0 {
		return []configs.Stage{{}}
	}
	return q.w.Stages
}

// need returns the memory of that batch in the stage that needs most.
func (q question) need(batch int) (parts []Component, most int64, err error) {
	most = -1
	for _, s := range q.stages() {
		these, total, err := q.components(batch, s)
		if err != nil {
			return nil, 0, err
		}
		if total > most {
			parts, most = these, total
		}
	}
	return parts, most, nil
}
