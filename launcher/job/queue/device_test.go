package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// has returns a ticket with a claim on GPU-0 and one process.
func has(number uint64, bytes, strangers int64, pid int) Entry {
	return Entry{
		Number: number, Name: "job", Claim: &Claim{GPU: "GPU-0", Bytes: bytes, Strangers: strangers}, Processes: []supervise.Identity{{PID: pid}},
	}
}

func TestNoByteIsCountedTwiceNorForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		device          Device
		entries         []Entry
		free, strangers int64
	}{
		"empty":                       {Device{Total: 24, Free: 24}, nil, 24, 0},
		"strangers alone":             {Device{Total: 24, Free: 20}, nil, 20, 4},
		"claim not used yet":          {Device{Total: 24, Free: 24, Processes: map[int]int64{}}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"claim used in part":          {Device{Total: 24, Free: 18, Processes: map[int]int64{7: 6}}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"claim used":                  {Device{Total: 24, Free: 14, Processes: map[int]int64{7: 10}}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"more used than claimed":      {Device{Total: 24, Free: 12, Processes: map[int]int64{7: 12}}, []Entry{has(1, 10, 0, 7)}, 12, 0},
		"and a stranger":              {Device{Total: 24, Free: 11, Processes: map[int]int64{7: 10, 8: 3}}, []Entry{has(1, 10, 0, 7)}, 11, 3},
		"a stranger that grew":        {Device{Total: 24, Free: 16, Processes: map[int]int64{8: 8}}, []Entry{has(1, 10, 2, 7)}, 6, 8},
		"not told, not used yet":      {Device{Total: 24, Free: 24}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"not told, used":              {Device{Total: 24, Free: 14}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"not told, a stranger before": {Device{Total: 24, Free: 20}, []Entry{has(1, 10, 4, 7)}, 10, 4},
		"not told, the stranger left": {Device{Total: 24, Free: 23}, []Entry{has(1, 10, 4, 7)}, 13, 1},
		"not told, a stranger grew":   {Device{Total: 24, Free: 8}, []Entry{has(1, 10, 4, 7)}, 8, 6},
		"one process is not told":     {Device{Total: 24, Free: 14, Processes: map[int]int64{7: -1}}, []Entry{has(1, 10, 0, 7)}, 14, 0},
		"two claims":                  {Device{Total: 24, Free: 18, Processes: map[int]int64{7: 6}}, []Entry{has(1, 8, 0, 7), has(2, 9, 0, 8)}, 7, 0},
		"another GPU's":               {Device{Total: 24, Free: 24}, []Entry{{Number: 1, Claim: &Claim{GPU: "GPU-1", Bytes: 9}}}, 24, 0},
		"a driver that contradicts":   {Device{Total: 24, Free: 99}, nil, 24, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.device.GPU = "GPU-0"
			s := newAccount(c.device, c.entries)
			require.Equal(t, c.free, s.free, "free")
			require.Equal(t, c.strangers, s.strangers, "strangers")
		})
	}
}

// gpus returns empty GPUs with these sizes in bytes.
func gpus(totals ...int64) []Device {
	names := []string{"GPU-0", "GPU-1", "GPU-2"}
	var devices []Device
	for i, total := range totals {
		devices = append(devices, Device{GPU: names[i], Index: i, Name: "Test", Total: total, Free: total})
	}
	return devices
}

func waits(number uint64, need Need) Entry { return Entry{Number: number, Name: "job", Need: need} }

func on(gpu string, number uint64, bytes int64) Entry {
	return Entry{Number: number, Name: "job", Claim: &Claim{GPU: gpu, Bytes: bytes}}
}

func TestWhichGPU(t *testing.T) {
	busy := gpus(10, 20, 15)
	busy[1].Free = 12
	for name, c := range map[string]struct {
		devices []Device
		entries []Entry // the last one tries
		want    string  // "": none
	}{
		"most free":                           {busy, []Entry{waits(1, Need{Bytes: 4})}, "GPU-2"},
		"equal ones by index":                 {gpus(8, 8), []Entry{waits(1, Need{Bytes: 4})}, "GPU-0"},
		"the one asked for":                   {busy, []Entry{waits(1, Need{Bytes: 4, GPU: "GPU-0"})}, "GPU-0"},
		"one asked for that is not there":     {busy, []Entry{waits(1, Need{Bytes: 4, GPU: "GPU-9"})}, ""},
		"never the host unasked":              {[]Device{{GPU: CPU, Total: 50, Free: 50}}, []Entry{waits(1, Need{Bytes: 4})}, ""},
		"the host":                            {[]Device{{GPU: CPU, Total: 50, Free: 50}}, []Entry{waits(1, Need{Bytes: 4, GPU: CPU})}, CPU},
		"free for a minimum":                  {gpus(10), []Entry{waits(1, Need{Bytes: 4, MinFree: 11})}, ""},
		"alone, beside a claim":               {gpus(10), []Entry{on("GPU-0", 1, 1), waits(2, Need{Bytes: 4, Exclusive: true})}, ""},
		"beside one that is alone":            {gpus(10), []Entry{{Number: 1, Claim: &Claim{GPU: "GPU-0", Exclusive: true}}, waits(2, Need{})}, ""},
		"what one in front has not taken yet": {gpus(10), []Entry{waits(1, Need{Bytes: 8}), waits(2, Need{Bytes: 4})}, ""},
		"beside what one in front will take":  {gpus(10), []Entry{waits(1, Need{Bytes: 6}), waits(2, Need{Bytes: 4})}, "GPU-0"},
		"one in front takes the other":        {gpus(10, 8), []Entry{waits(1, Need{Bytes: 8}), waits(2, Need{Bytes: 8})}, "GPU-1"},
		"one in front sees the other alone": {
			gpus(10, 8),
			[]Entry{{Number: 1, Need: Need{Bytes: 8}, Sees: []string{"GPU-1"}}, waits(2, Need{Bytes: 8})},
			"GPU-0",
		},
		"a small one would delay a large one": {gpus(10), []Entry{on("GPU-0", 1, 4), waits(2, Need{Bytes: 8}), waits(3, Need{Bytes: 4})}, ""},
		"a small one passes a large one":      {gpus(10), []Entry{on("GPU-0", 1, 4), waits(2, Need{Bytes: 8}), waits(3, Need{Bytes: 2})}, "GPU-0"},
		"two small ones would not": {
			gpus(10),
			[]Entry{on("GPU-0", 1, 4), waits(2, Need{Bytes: 8}), on("GPU-0", 3, 2), waits(4, Need{Bytes: 1})},
			"",
		},
		"a GPU that is kept for nobody": {
			gpus(10, 8),
			[]Entry{on("GPU-0", 1, 9), on("GPU-1", 2, 3), waits(3, Need{Bytes: 8}), waits(4, Need{Bytes: 1})},
			"GPU-0",
		},
		"one too large for any is passed": {gpus(10), []Entry{waits(1, Need{Bytes: 11}), waits(2, Need{Bytes: 10})}, "GPU-0"},
		"one that strangers keep out":     {busy[1:2], []Entry{waits(1, Need{Bytes: 13}), waits(2, Need{Bytes: 10})}, "GPU-1"},
		"one that keeps where none is in it": {
			gpus(10, 10),
			[]Entry{on("GPU-0", 1, 5), waits(2, Need{Bytes: 9}), on("GPU-1", 3, 4), waits(4, Need{Bytes: 3})},
			"GPU-1",
		},
		"alone is waited for by whoever later": {gpus(10), []Entry{on("GPU-0", 1, 1), waits(2, Need{Exclusive: true}), waits(3, Need{})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim, verdict := decide(c.entries, c.entries[len(c.entries)-1].Number, c.devices, 0)
			require.Equal(t, c.want, claim.GPU, verdict.String())
			require.Equal(t, c.want != "", verdict.Granted)
		})
	}
}

func TestAVerdictSaysInNumbersWhatIsMissing(t *testing.T) {
	devices := gpus(24e9, 16e9)
	devices[0].Free, devices[1].Free = 9e9, 12e9
	large, small := waits(3, Need{Bytes: 15e9}), waits(4, Need{Bytes: 12e9})
	large.Name = "large"
	entries := []Entry{on("GPU-0", 1, 20e9), {Number: 2, Claim: &Claim{GPU: "GPU-1", Bytes: 4e9}}, large, small}
	_, verdict := decide(entries, 4, devices, 0)
	require.Equal(t, 2, verdict.Position)
	require.Equal(t, []string{"large"}, verdict.InFront)
	require.Equal(t, []Shortfall{
		{GPU: "GPU-0", Index: 0, Name: "Test", Total: 24e9, Free: 9e9, Unused: 5e9, Missing: 8e9, Holders: []string{"job"}},
		{GPU: "GPU-1", Index: 1, Name: "Test", Total: 16e9, Free: 12e9, KeptFor: "large"},
	}, verdict.Devices)
	require.Equal(t, "waits for a GPU with 12.0 GB free, number 2 in the queue behind large: GPU 0 has 9.0 GB free of 24.0 GB, "+
		"5.0 GB of it claimed by job; GPU 1 has 12.0 GB free of 16.0 GB, kept for large", verdict.String())
	require.False(t, verdict.Never)

	alone := on("GPU-1", 1, 0)
	alone.Name, alone.Claim.Exclusive = "first", true
	_, verdict = decide([]Entry{alone, waits(2, Need{Bytes: 1e9, GPU: "GPU-1"})}, 2, devices, 0)
	require.Equal(t, "waits for GPU 1 with 1.0 GB free: GPU 1 has 12.0 GB free of 16.0 GB, in use by first", verdict.String())

	_, verdict = decide([]Entry{waits(1, Need{Bytes: 25e9})}, 1, devices, 0)
	require.True(t, verdict.Never)
	_, verdict = decide([]Entry{waits(1, Need{})}, 1, nil, 0)
	require.False(t, verdict.Never)
	require.Equal(t, "waits for a GPU: there is none", verdict.String())
}
