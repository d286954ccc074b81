package fit

import (
	"errors"
	"strings"
	"testing"
)

// A plan for a node that only generates excludes training memory, so a smaller host can run it.
func TestANodeThatOnlyGeneratesNeedsNoOptimizer(t *testing.T) {
	for name, r := range map[string]Request{"GPU": request(gpt2), "CPU": request(gpt2)} {
		r.Nodes = "1"
		if name == "CPU" {
			r.Device = DeviceCPU
		} else {
			r.GPUMemory = 16e9
		}
		want := 8 * gpt2.Shape.Parameters
		if name == "GPU" {
			want += cudaWorkspace // for the backward pass's thread
		}
		trains := plan(t, r)
		r.Settings.GenerateOnly, r.Settings.Beta = true, 0.1
		generates := plan(t, r)
		if saved := trains.PerNode.Resident - generates.PerNode.Resident; saved != want {
			t.Errorf("%s: %d bytes less resident, want %d: Adam's moments, and on a GPU a workspace", name, saved, want)
		}
		if generates.PerNode.Update != 0 || generates.PerNode.Generate == 0 || generates.PerNode.Transient != generates.PerNode.Generate {
			t.Errorf("%s: takes %+v", name, generates.PerNode)
		}
		if !strings.Contains(generates.Why, "only generate") || strings.Contains(trains.Why, "only generate") {
			t.Errorf("%s: why: %q and %q", name, trains.Why, generates.Why)
		}
	}
}

func TestAHostTooSmallToTrainMayGenerate(t *testing.T) {
	r := request(gpt2)
	r.Nodes, r.GPUMemory = "1", 2e9
	if p, err := New(r); !errors.Is(err, ErrDoesNotFit) {
		t.Fatalf("trains on 2 GB: %+v, %v", p.PerNode, err)
	}
	r.Settings.GenerateOnly = true
	plan(t, r)
}
