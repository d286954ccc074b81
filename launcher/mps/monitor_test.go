package mps

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// look returns one observation at a time in seconds.
func look(second int, servers ...server) observation {
	return observation{at: time.Unix(int64(second), 0), servers: servers}
}

func blind(second int) observation {
	return observation{at: time.Unix(int64(second), 0), err: errors.New("no answer")}
}

func logged(o observation) observation {
	o.logged = true
	return o
}

func TestMonitor(t *testing.T) {
	active := server{1, statusActive, []int{10, 11}}
	idle := server{1, statusActive, nil}
	fault := server{1, statusFault, []int{10}}
	other := server{2, statusActive, nil}
	for _, tt := range []struct {
		name string
		see  []observation
		want []change
	}{
		{"all is well", []observation{look(0), look(1, active), look(2, idle)}, []change{nothing, nothing, nothing}},
		{"a fault heals once its clients are gone", []observation{look(0, active), look(1, fault), look(2, fault), look(3, idle), look(4, idle)},
			[]change{nothing, faulted, nothing, recovered, nothing}},
		{"a fault that is over before anybody looks is in the log", []observation{look(0, active), logged(look(1, idle)), look(2, idle)},
			[]change{nothing, faulted, recovered}},
		{"a second fault is announced again", []observation{look(0, fault), look(1, idle), look(2, fault)}, []change{faulted, recovered, faulted}},
		{"a server that dies under its clients", []observation{look(0, active), look(1), look(2, other)}, []change{nothing, faulted, recovered}},
		{"a server that is replaced under its clients", []observation{look(0, active), look(1, other), look(2, other)}, []change{nothing, faulted, recovered}},
		{"a server that ends without clients is no fault", []observation{look(0, idle), look(1), look(2, other)}, []change{nothing, nothing, nothing}},
		{"a server that only starts takes no clients yet", []observation{look(0, fault), look(1, server{1, "INITIALIZING", nil}), look(2, idle)},
			[]change{faulted, nothing, recovered}},
		{"one missed answer is no fault", []observation{look(0, active), blind(1), blind(2), look(3, active)}, []change{nothing, nothing, nothing, nothing}},
		{"a lost daemon is replaced after its clients had time to end",
			[]observation{look(0, active), blind(1), blind(2), blind(3), blind(12), blind(13), look(14)},
			[]change{nothing, nothing, nothing, faulted, nothing, restart, recovered}},
		{"a fault without end: two restarts, then no more",
			[]observation{look(0, fault), look(19, fault), look(20, fault), look(40, fault), look(60, fault)},
			[]change{faulted, nothing, restart, restart, fatal}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := monitor{pace: normalPace}
			for i, o := range tt.see {
				got, why := m.see(o)
				if got != tt.want[i] {
					t.Fatalf("look %d: %d (%s), want %d", i, got, why, tt.want[i])
				}
				if (got == faulted || got == restart || got == fatal) != (why != "") {
					t.Errorf("look %d: change %d because of %q", i, got, why)
				}
			}
		})
	}
}

// For any observations, faults and recoveries alternate, restarts happen within a fault and are bounded, and every
// fault is announced.
func TestMonitorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := monitor{pace: normalPace}
		inFault, restarts, second := false, 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			second += rapid.IntRange(1, 40).Draw(t, "pause")
			o := observation{at: time.Unix(int64(second), 0), logged: rapid.Bool().Draw(t, "logged")}
			if rapid.IntRange(0, 4).Draw(t, "blind") == 0 {
				o.err, o.logged = errors.New("no answer"), false
			} else if rapid.Bool().Draw(t, "serves") {
				status := rapid.SampledFrom([]string{statusActive, statusFault, "INITIALIZING"}).Draw(t, "status")
				o.servers = []server{{rapid.IntRange(1, 2).Draw(t, "pid"), status, make([]int, rapid.IntRange(0, 2).Draw(t, "clients"))}}
			}
			what, _ := m.see(o)
			switch what {
			case faulted:
				if inFault {
					t.Fatal("announced twice")
				}
				inFault, restarts = true, 0
			case recovered:
				if !inFault || o.logged || len(o.servers) > 0 && o.servers[0].status != statusActive {
					t.Fatalf("recovered (in fault %t) at %+v", inFault, o)
				}
				inFault = false
			case restart:
				if restarts++; !inFault || restarts > mostRestarts {
					t.Fatalf("restart %d, in fault %t", restarts, inFault)
				}
			case fatal:
				if !inFault || restarts != mostRestarts {
					t.Fatalf("fatal after %d restarts, in fault %t", restarts, inFault)
				}
				return
			}
			if len(o.servers) > 0 && o.servers[0].status == statusFault && !inFault {
				t.Fatal("FAULT was not announced")
			}
		}
	})
}
