package configs

import (
	"go.yaml.in/yaml/v3"
)

// maxBatch is the maximum batch size and accumulation. It is also a batch's limit if the profile sets none.
const maxBatch = 1 << 16

// workload reads the profile's top level.
func (r profileReader) workload(n *yaml.Node) (Workload, error) {
	w := Workload{SafetyMargin: 0.85, Unit: "GB"} // guide 2's margin
	err := r.mapping("", n, map[string]read{
		"name":                   r.text(&w.Name),
		"about":                  r.text(&w.About),
		"source":                 r.text(&w.Source),
		"unit":                   r.choice(&w.Unit, "GB", "GiB"),
		"values":                 r.sequence(func(key string, n *yaml.Node) error { return r.value(&w, key, n) }),
		"memory":                 r.sequence(func(key string, n *yaml.Node) error { return r.memory(&w, key, n) }),
		"safety_margin":          r.number(&w.SafetyMargin, 0.05, 1),
		"target_effective_batch": r.whole(&w.TargetEffectiveBatch, 1, maxBatch*64),
		"stages":                 r.sequence(func(key string, n *yaml.Node) error { return r.stage(&w, key, n) }),
		"known":                  r.sequence(func(key string, n *yaml.Node) error { return r.known(&w, key, n) }),
		"ladder":                 r.sequence(func(key string, n *yaml.Node) error { return r.step(&w, key, n) }),
		"advice":                 r.texts(&w.Advice),
		"next":                   r.texts(&w.Next),
	})
	return w, err
}

func (r profileReader) value(w *Workload, key string, n *yaml.Node) error {
	var v WorkloadValue
	err := r.mapping(key, n, map[string]read{
		"name":        r.text(&v.Name),
		"role":        r.choice(&v.Role, RoleBatch, RoleAccumulate),
		"about":       r.text(&v.About),
		"start":       r.text(&v.Start),
		"recommended": r.text(&v.Recommended),
		"min":         r.number(&v.Min, 0, 1e12),
		"max":         r.number(&v.Max, 0, 1e12),
		"rule":        r.formula(&v.Rule),
		"place":       r.texts(&v.Places),
	})
	w.Values = append(w.Values, v)
	return err
}

func (r profileReader) memory(w *Workload, key string, n *yaml.Node) error {
	var m MemoryItem
	err := r.mapping(key, n, map[string]read{"name": r.text(&m.Name), "bytes": r.formula(&m.Bytes), "note": r.text(&m.Note)})
	w.Memory = append(w.Memory, m)
	return err
}

func (r profileReader) stage(w *Workload, key string, n *yaml.Node) error {
	var s Stage
	err := r.mapping(key, n, map[string]read{
		"name": r.text(&s.Name),
		"values": r.sequence(func(key string, n *yaml.Node) error {
			var v StageValue
			err := r.mapping(key, n, map[string]read{"name": r.text(&v.Name), "value": r.text(&v.Value), "place": r.texts(&v.Places)})
			s.Values = append(s.Values, v)
			return err
		}),
	})
	w.Stages = append(w.Stages, s)
	return err
}

func (r profileReader) known(w *Workload, key string, n *yaml.Node) error {
	var k KnownRow
	err := r.mapping(key, n, map[string]read{
		"name": r.text(&k.Name), "gpu_memory": r.size(&k.GPUMemory), "values": r.edits(&k.Values), "expected": r.size(&k.Expected),
		"note": r.text(&k.Note),
	})
	w.Known = append(w.Known, k)
	return err
}

func (r profileReader) step(w *Workload, key string, n *yaml.Node) error {
	s := LadderStep{Repeat: 1}
	err := r.mapping(key, n, map[string]read{
		"title": r.text(&s.Title), "why": r.text(&s.Why), "trade_off": r.text(&s.TradeOff), "expected": r.text(&s.Expected),
		"stage": r.text(&s.Stage), "edits": r.edits(&s.Edits), "repeat": r.whole(&s.Repeat, 1, 20),
	})
	w.Ladder = append(w.Ladder, s)
	return err
}
