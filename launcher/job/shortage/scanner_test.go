package shortage

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// samples reads a file of testdata.
func samples(t testing.TB, name string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	for _, f := range txtar.Parse(data).Files {
		found[f.Name] = f.Data
	}
	return found
}

func scan(data []byte) *Scanner {
	s := NewScanner()
	s.Write(data)
	s.Close()
	return s
}

func mib(n float64) int64 { return int64(n*(1<<20) + 0.5) }
func g(n float64) int64   { return int64(n*(1<<30) + 0.5) }

// want is the expected report of every sample, except Line, which is compared separately.
var want = map[string]Report{
	"torch-1.0-cached": {Kind: Torch, Asked: mib(12.5), Total: g(10.92), Allocated: mib(8.57), Free: g(9.28), Where: "train.py:88", LineNumber: 4},
	"torch-1.5-reserved": {Kind: Torch, GPU: 1, Asked: g(2.87), Total: g(14.76), Allocated: g(8.77), Free: mib(19.75),
		Reserved: g(13.71) - g(8.77)},
	"torch-1.13-hint": {Kind: Torch, Asked: mib(20), Total: g(8), Allocated: g(7.06), Reserved: g(7.29) - g(7.06),
		Where: "train_lora.py:88 in training_step", LineNumber: 8},
	"torch-2.1-capacty": {Kind: Torch, Asked: mib(138), Total: g(15.9), Free: mib(8.44), InUse: g(15.32), Allocated: g(14.12),
		Reserved: mib(410.41), Holders: []Holder{{1246069, mib(577)}}},
	"torch-2.5-ranks": {Kind: Torch, GPU: 1, Asked: g(1.16), Total: g(39.49), Free: mib(471.69), InUse: g(38.63), Allocated: g(37.03),
		Reserved: g(1), Where: "train.py:131 in evaluate", LineNumber: 11, Times: 2},
	"torch-2.6-wrapped-container": {Kind: Torch, Asked: g(32), Total: g(79.18), Free: mib(842.75), Allocated: g(74.09), Reserved: mib(89.93),
		LineNumber: 2, Holders: []Holder{{834991, mib(520)}, {852079, g(75.72)}, {859101, g(2.06)}}},
	"torch-2.5-neighbour": {Kind: Torch, Asked: g(7.49), Total: g(15.47), Free: g(6.71), InUse: mib(222),
		Holders: []Holder{{28800, mib(15.53)}, {54776, g(7.75)}}},
	"torch-2.5-fragmented":    {Kind: Torch, Asked: g(3.15), Total: g(39.56), Free: mib(6.8), InUse: g(36.61), Allocated: g(31.66), Reserved: g(4.11)},
	"torch-1eb":               {Kind: Torch, GPU: -1},
	"torch-hip":               {Kind: Torch, GPU: 3, Asked: g(2), Total: g(63.98), Free: g(1.02), Allocated: g(60), Reserved: g(1.2)},
	"torch-mps":               {Kind: Torch, GPU: -1, Asked: mib(768), Total: g(6.8), Allocated: g(5.56)},
	"torch-accelerator-error": {Kind: CUDA, GPU: -1},
	"torch-0.4":               {Kind: CUDA, GPU: -1, Times: 2, LineNumber: 2},
	"torch-cpu":               {Kind: HostAllocation, OnHost: true, GPU: -1, Asked: 40000000000, Where: "train.py:31 in training_step", LineNumber: 4},
	"torch-cpu-windows":       {Kind: HostAllocation, OnHost: true, GPU: -1, Asked: 1981808640},
	"torch-user-print":        {Kind: Torch, GPU: -1},
	"verl-ray": {Kind: Torch, Asked: g(17.66), Total: g(79.18), Free: g(4.97), Allocated: g(70.77), Reserved: g(2.33),
		Holders: []Holder{{12345, g(74.2)}}, Where: "dp_actor.py:373 in update_policy", LineNumber: 14},
	"jax":                 {Kind: JAX, GPU: -1, Asked: 4770354232, Where: "dispatch.py:895 in _execute_compiled", LineNumber: 3},
	"jax-request":         {Kind: JAX, GPU: 2, Asked: 3206250496},
	"jax-tpu":             {Kind: JAX, GPU: -1, Asked: g(8), Free: g(7.48)},
	"jax-tpu-compile":     {Kind: JAX, GPU: -1, InUse: g(19.5), Total: g(15.48)},
	"tensorflow":          {Kind: TensorFlow, GPU: 1, Asked: 128 * 128 * 109 * 109 * 4},
	"tensorflow-cpu":      {Kind: TensorFlow, OnHost: true, GPU: -1, Asked: 100 * 4096 * 32 * 2},
	"tensorflow-no-type":  {Kind: TensorFlow, GPU: -1},
	"tensorflow-bfc":      {Kind: TensorFlow, Asked: 2791728742},
	"tensorflow-driver":   {Kind: CUDA, GPU: -1, Asked: 1617277696},
	"cublas":              {Kind: CUDA, GPU: -1},
	"cublas-handle":       {Kind: CUDA, GPU: -1},
	"torch-2.1-nvml":      {Kind: Torch, GPU: -1},
	"torch-2.3-nvml-init": {Kind: Torch, GPU: -1},
	"cudnn":               {Kind: CUDA, GPU: -1},
	"cuda-runtime":        {Kind: CUDA, GPU: -1, LineNumber: 2},
	"nccl":                {Kind: CUDA, GPU: 3, Asked: 6291456},
	"llama-cpp":           {Kind: CUDA, Asked: 8192 << 20},
	"cupy":                {Kind: CUDA, GPU: -1, Asked: 8000000000},
	"bitsandbytes":        {Kind: CUDA, GPU: -1},
	"vllm-blocks":         {Kind: CUDA, GPU: -1, Where: "worker.py:493 in raise_if_cache_size_invalid", LineNumber: 3},
	"vllm-startup":        {Kind: CUDA, GPU: 1, Asked: g(19.84), Free: g(19.77), Total: g(22.05)},
	"ray-monitor": {Kind: HostKilled, OnHost: true, GPU: -1, InUse: g(12.18), Total: g(33.28), Free: g(33.28) - g(21.91),
		Holders: []Holder{{548, g(12.18)}}},
	"ray-workers": {Kind: HostKilled, OnHost: true, GPU: -1},
	"python":      {Kind: HostAllocation, OnHost: true, GPU: -1, Where: "load.py:2 in training_step", LineNumber: 4},
	"numpy":       {Kind: HostAllocation, OnHost: true, GPU: -1, Asked: g(26.8), Where: "load.py:3", LineNumber: 3},
	"bad-alloc":   {Kind: HostAllocation, OnHost: true, GPU: -1, Times: 2, LineNumber: 2},
	"errno-12":    {Kind: HostAllocation, OnHost: true, GPU: -1},
	"shm":         {Kind: HostAllocation, OnHost: true, GPU: -1},
	"kernel": {Kind: HostKilled, OnHost: true, GPU: -1, InUse: (60356340 + 12) << 10,
		Holders: []Holder{{1440763, (60356340 + 12) << 10}}, LineNumber: 3},
	"kernel-cgroup": {Kind: HostKilled, OnHost: true, GPU: -1, InUse: (15370088 + 1024) << 10,
		Holders: []Holder{{7899, (15370088 + 1024) << 10}}},
	"slurm":             {Kind: HostKilled, OnHost: true, GPU: -1, LineNumber: 2},
	"slurm-23":          {Kind: HostKilled, OnHost: true, GPU: -1, Times: 2, LineNumber: 2},
	"guide-1":           {Kind: Torch, Asked: g(17.66), Total: g(79.18), Free: g(4.97), Allocated: g(100.77)},
	"guide-2":           {Kind: Torch, GPU: -1},
	"guide-4":           {Kind: Torch, GPU: -1},
	"ansi-and-progress": {Kind: Torch, Asked: g(2.26), Total: g(6), Allocated: mib(781.59), Free: g(3.03), Reserved: g(1.24) - mib(781.59)},
}

func TestEverySampleIsReadWithItsNumbers(t *testing.T) {
	found := samples(t, "shortages.txtar")
	if len(found) != len(want) {
		t.Errorf("%d samples, %d expectations", len(found), len(want))
	}
	for name, data := range found {
		t.Run(name, func(t *testing.T) {
			if name == "ansi-and-progress" {
				data = colour(data)
			}
			w, ok := want[name]
			if !ok {
				t.Fatal("no expectation")
			}
			w.Times, w.LineNumber = max(1, w.Times), max(1, w.LineNumber)
			s := scan(data)
			r, ok := s.Shortage()
			if !ok {
				t.Fatal("not found")
			}
			if !s.Failed() {
				f, _ := s.Fault()
				t.Errorf("the last failure is not the shortage but %+v", f)
			}
			line := strings.Split(string(data), "\n")[r.LineNumber-1]
			if r.Line == "" || !strings.Contains(plain([]byte(line)), strings.TrimSuffix(r.Line, "…")) {
				t.Errorf("line %d is %q, not %q", r.LineNumber, line, r.Line)
			}
			r.Line = ""
			if !reflect.DeepEqual(r, w) {
				t.Errorf("\ngot  %+v\nwant %+v", r, w)
			}
		})
	}
}

// colour adds what a text file can't contain: terminal escapes, and carriage returns as line ends.
func colour(data []byte) []byte {
	data = bytes.Replace(data, []byte("\n"), []byte("\r"), 1)
	return bytes.Replace(data, []byte("RuntimeError"), []byte("\x1b[31mRuntimeError\x1b[0m"), 1)
}

func TestWhatIsNoShortageIsNone(t *testing.T) {
	for name, data := range samples(t, "others.txtar") {
		t.Run(name, func(t *testing.T) {
			s := scan(data)
			if r, ok := s.Shortage(); ok || s.Failed() {
				t.Errorf("taken for a shortage: %+v", r)
			}
			kind, _, _ := strings.Cut(name, ".")
			fault, ok := s.Fault()
			if got := string(fault.Kind); ok != (kind != "none") || (ok && got != kind) {
				t.Errorf("fault %q, want %q", got, kind)
			}
		})
	}
}
