package fit

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// For a swarm of different models, the plan gives a node at least the memory of each model at the same batch sizes.
// The order of the models does not matter.
func TestEveryModelOfASwarmFitsItsNode(t *testing.T) {
	t.Parallel()
	planned := 0
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		r.Measured = nil
		models := []configs.Model{r.Model}
		for _, m := range rapid.SliceOfN(rapid.SampledFrom([]configs.Model{gpt2, nano, qwen}), 1, 2).Draw(t, "others") {
			models = append(models, m)
			r.Companions = append(r.Companions, Companion{Model: m})
		}
		p, err := New(r)
		if err != nil {
			return
		}
		planned++
		if _, err := r.check(); err != nil {
			t.Fatal(err)
		}
		n := r.need(p.Device)
		sizes := n.wanted()
		if p.MicroBatch > 0 {
			sizes.Update = p.MicroBatch
		}
		if p.GenerateBatch > 0 {
			sizes.Generate = p.GenerateBatch
		}
		for _, m := range models {
			alone := Sum(Estimate(m, p.Device, r.Settings, sizes))
			if has := p.PerNode; alone.Resident > has.Resident || alone.Generate > has.Generate || alone.Update > has.Update {
				t.Fatalf("%s alone takes %+v, a node is planned for %+v", m.Name, alone, has)
			}
		}
		slices.Reverse(r.Companions)
		if other, err := New(r); err != nil || other.Nodes != p.Nodes || other.PerNode != p.PerNode {
			t.Fatalf("in another order: %d nodes of %+v (%v), before %d of %+v", other.Nodes, other.PerNode, err, p.Nodes, p.PerNode)
		}
	})
	if planned == 0 {
		t.Error("no plan was made")
	}
}

func TestPlanOfDifferentModelsSaysSo(t *testing.T) {
	t.Parallel()
	measured := &Measured{Resident: 1e9, Origin: OriginProfile}
	for _, test := range []struct {
		name         string
		first, other *Measured
		source       string
	}{
		{"neither measured", nil, nil, SourceEstimate},
		{"one measured", measured, nil, SourceEstimate},
		{"both measured", measured, measured, SourceMeasured},
	} {
		r := request(nano)
		r.Device, r.Measured, r.Companions = DeviceCPU, test.first, []Companion{{gpt2, test.other}}
		r.Nodes = "2"
		p := plan(t, r)
		if p.Source != test.source {
			t.Errorf("%s: source %s, want %s", test.name, p.Source, test.source)
		}
		for _, part := range []string{"2 nodes of gpt2 and nano on the CPU", "Nodes have different models: the plan gives each node"} {
			if !strings.Contains(p.Why, part) {
				t.Errorf("%s: %q has no %q", test.name, p.Why, part)
			}
		}
		if len(r.Companions) != 1 || r.Companions[0].Model.Name != gpt2.Name || r.Companions[0].Measured != test.other {
			t.Errorf("%s: the request's own companions were changed: %+v", test.name, r.Companions)
		}
	}
	r := request(nano)
	r.Companions = []Companion{{configs.Model{Name: "odd"}, nil}}
	if _, err := New(r); err == nil || !strings.Contains(err.Error(), `model "odd": its shape is unknown`) {
		t.Errorf("error %v", err)
	}
}
