package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const gb80 = int64(81920) << 20

// card is an idle A100 80 GB with used bytes in use.
func card(used int64) DeviceUse {
	return DeviceUse{Busy: -1, Batch: 22, Device: Device{
		GPU:         GPU{Name: "NVIDIA A100-SXM4-80GB", MemoryTotal: gb80, MemoryUsed: used, MemoryFree: gb80 - used},
		Utilization: -1, PowerWatts: -1, PowerLimitWatts: -1, TemperatureCelsius: -1, TemperatureSlowdown: -1,
	}}
}

// claims returns the claims of n nodes, each holding each bytes.
func claims(n int, each int64) (list []Claim) {
	for i := range n {
		list = append(list, Claim{Node: fmt.Sprint("node_", i), Held: each, Peak: each})
	}
	return list
}

func rising(from int64, perSecond float64, seconds int) *History {
	h := &History{}
	for i := 0; i <= seconds; i += 10 {
		h.Add(float64(i), from+int64(perSecond*float64(i)))
	}
	return h
}

func TestAdvice(t *testing.T) {
	with := func(d DeviceUse, change func(*DeviceUse)) DeviceUse { change(&d); return d }
	tests := []struct {
		name     string
		device   DeviceUse
		warnings []string // prefixes, one per warning
		advice   []string // prefixes, one per recommendation
	}{
		{"an idle card", card(500e6), nil, []string{"GPU 0: guide 0 (docs/GUIDES.md) recommends batch size 22"}},
		{"guide 4's swarm: 52 GB and stable", with(card(52e9), func(d *DeviceUse) { d.Claims, d.Busy = claims(8, 6e9), 0.9 }), nil, nil},
		{"70 of 80", with(card(75161927680), func(d *DeviceUse) { d.Claims, d.Busy = claims(8, 9e9), 0.9 }), nil, nil},
		{"above 70 of 80", with(card(75161927681), func(d *DeviceUse) { d.Claims, d.Busy = claims(8, 9e9), 0.9 }),
			[]string{"GPU 0: 75.2 GB of 85.9 GB in use, more than 7/8: likely to run out of memory. Try: fewer nodes (--nodes 7), --share lease"},
			[]string{"GPU 0: nodes can run with less memory. Try: gradient_checkpointing: true"}},
		{"full", with(card(85e9), func(d *DeviceUse) { d.Claims, d.Busy = claims(8, 10e9), 0.9 }),
			[]string{"GPU 0: 85.0 GB of 85.9 GB in use, more than 7/8: likely to run out of memory. Try: fewer nodes (--nodes 7)"},
			[]string{"GPU 0: nodes can"}},
		{"somebody else's process", with(card(30e9), func(d *DeviceUse) { d.Claims, d.Busy = claims(2, 6e9), 0.9 }),
			[]string{"GPU 0: at least 16.8 GB are in use outside the nodes. Try: nvidia-smi"}, nil},
		{"nobody's nodes, somebody's process", card(30e9), []string{"GPU 0: at least 30.0 GB are in use outside the nodes"}, []string{"GPU 0: guide 0 (docs"}},
		{"rising", with(card(60e9), func(d *DeviceUse) { d.Claims, d.Busy, d.History = claims(8, 7e9), 0.9, rising(56e9, 2e6, 2000) }),
			[]string{"GPU 0: memory in use rises by 7.2 GB per hour: full in 4 hours. Try: clear_cache_every_n_rounds: 10"}, nil},
		{"rising, but seen for five minutes only", with(card(60e9), func(d *DeviceUse) {
			d.Claims, d.Busy, d.History = claims(8, 7e9), 0.9, rising(50e9, 2e7, 300)
		}), nil, nil},
		{"rising, but full in days", with(card(52e9), func(d *DeviceUse) {
			d.Claims, d.Busy, d.History = claims(8, 6e9), 0.9, rising(50e9, 1e5, 20000)
		}), nil, nil},
		{"falling", with(card(52e9), func(d *DeviceUse) { d.Claims, d.Busy, d.History = claims(8, 6e9), 0.9, rising(60e9, -1e6, 8000) }), nil, nil},
		{"idle with nodes", with(card(20e9), func(d *DeviceUse) { d.Claims, d.Busy = claims(3, 6e9), 0.21 }), nil,
			[]string{"GPU 0: 21 % busy with 3 nodes, and 65.9 GB free. Try: more nodes (--nodes max)"}},
		{"utilisation not told", with(card(20e9), func(d *DeviceUse) { d.Claims = claims(3, 6e9) }), nil, nil},
		{"heat", with(card(0), func(d *DeviceUse) {
			d.Slowdowns, d.TemperatureCelsius, d.TemperatureSlowdown = []string{SlowdownHeat, SlowdownHardware}, 93, 92
		}), []string{"GPU 0: slowed down because of heat (93 °C). Try: better cooling, or a lower power limit"}, []string{"GPU 0: guide 0 (docs"}},
		{"nearly hot", with(card(0), func(d *DeviceUse) { d.TemperatureCelsius, d.TemperatureSlowdown = 87, 92 }),
			[]string{"GPU 0: close to slowing down because of heat (87 °C)"}, []string{"GPU 0: guide 0 (docs"}},
		{"warm", with(card(0), func(d *DeviceUse) { d.TemperatureCelsius, d.TemperatureSlowdown = 86, 92 }), nil, []string{"GPU 0: guide 0 (docs"}},
		{"hot, slowdown not told", with(card(0), func(d *DeviceUse) { d.TemperatureCelsius = 85 }),
			[]string{"GPU 0: close to slowing down because of heat (85 °C)"}, []string{"GPU 0: guide 0 (docs"}},
		{"power", with(card(0), func(d *DeviceUse) {
			d.Slowdowns, d.PowerLimitWatts = []string{SlowdownPowerCap, SlowdownPowerBrake, SlowdownHardware}, 400
		}), []string{"GPU 0: slowed down by the machine's power supply"}, []string{"GPU 0: guide 0 (docs",
			"GPU 0: the power limit of 400 W"}},
		{"hardware", with(card(0), func(d *DeviceUse) { d.Slowdowns = []string{SlowdownHardware} }),
			[]string{"GPU 0: the hardware has halved its clocks. Try: nvidia-smi -q -d PERFORMANCE"}, []string{"GPU 0: guide 0 (docs"}},
		{"defective memory", with(card(0), func(d *DeviceUse) { d.MemoryRepairPending = true }),
			[]string{"GPU 0: defective memory will be remapped at the next reset. Try: sudo nvidia-smi --gpu-reset -i 0"}, []string{"GPU 0: guide 0 (docs"}},
		{"defective for good", with(card(0), func(d *DeviceUse) { d.MemoryRepairPending, d.MemoryRepairImpossible = true, true }),
			[]string{"GPU 0: defective memory can no longer be remapped. Try: have the card replaced"}, []string{"GPU 0: guide 0 (docs"}},
		{"MIG", with(card(0), func(d *DeviceUse) { d.MIG = true }),
			[]string{"GPU 0: split by MIG, but swarm uses whole GPUs. Try: sudo nvidia-smi -i 0 -mig 0"}, nil},
		{"MIG with instances", with(card(0), func(d *DeviceUse) {
			d.MIG, d.Instances = true, []Instance{{UUID: "MIG-a", Name: "A100 MIG 1g.10gb", MemoryFree: 10e9}}
		}), []string{"GPU 0: split by MIG, but swarm uses an instance only if you name it: A100 MIG 1g.10gb (MIG-a, 10.0 GB free). " +
			"Try: CUDA_VISIBLE_DEVICES=MIG-a, or"}, nil},
		{"lost", with(card(-1), func(d *DeviceUse) { d.Lost, d.Problem = true, "read GPU 0: it fell off. Try: reboot" }),
			[]string{"GPU 0: lost: read GPU 0: it fell off. Try: reboot"}, nil},
		{"unreadable", with(card(-1), func(d *DeviceUse) { d.Problem = "read GPU 0: no permission. Try: ls" }),
			[]string{"GPU 0: read GPU 0: no permission. Try: ls"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			warnings, advice := Advise(Situation{Host: Host{MemoryTotal: 100e9, MemoryAvailable: 50e9}, Devices: []DeviceUse{tt.device}})
			requireNotes(t, tt.warnings, warnings)
			requireNotes(t, tt.advice, advice)
		})
	}
}

func requireNotes(t *testing.T, want []string, got []Note) {
	t.Helper()
	var lines []string
	for _, n := range got {
		require.NotEmpty(t, n.Code)
		lines = append(lines, n.String())
	}
	require.Len(t, got, len(want), strings.Join(lines, "\n"))
	for i, line := range lines {
		require.True(t, strings.HasPrefix(line, want[i]), "%q\nshould begin\n%q", line, want[i])
	}
}

func TestAdviceOnTheHostAndOnXIDs(t *testing.T) {
	warnings, advice := Advise(Situation{
		Host: Host{MemoryTotal: 64e9, MemoryAvailable: 6.3e9}, Running: 2,
		XIDs: []XID{{Index: 1, Code: 31}, {Index: 0, Code: 79}, {Index: 1, Code: 31}, {Index: -1, Code: 4711}},
	})
	requireNotes(t, []string{
		"GPU 1: XID 31: a program accessed memory it does not own (GPU memory page fault) (2 times). Try: ",
		"GPU 0: XID 79: the GPU has fallen off the bus. Try: reboot",
		"XID 4711: an error of the GPU. Try: look it up",
		"the host has 6.3 GB of 64.0 GB memory available. Try: fewer nodes",
	}, warnings)
	requireNotes(t, []string{"2 nodes on the CPU: guide 4"}, advice)
	warnings, advice = Advise(Situation{Host: Host{MemoryTotal: 64e9, MemoryAvailable: 6.4e9}})
	require.NotNil(t, warnings, "an empty list in JSON, not null")
	require.NotNil(t, advice)
	require.Empty(t, warnings)
	require.Empty(t, advice)
}
