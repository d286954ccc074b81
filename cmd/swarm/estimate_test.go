package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/node/policy"
)

// largeGrid, set to 1, measures the whole grid, which takes about six minutes.
const largeGrid = "SWARM_ESTIMATE_GRID"

// near is the allowed relative error of a node's estimated memory. The phase alone, without resident memory, may be
// off by a quarter plus 3 MB.
const near = 0.20

// sample is one point of the grid: an update of rows of prompt+next tokens, or a generation of that many completions.
type sample struct {
	phase              string
	rows, prompt, next int
	each               int  // rows of an update that share a prompt; 0: none
	ragged             bool // of the rows that share a prompt, all but the first are short
}

// grid returns micro-batches and lengths. If rows × length exceeds the 448 positions of a forward pass, the engine
// splits them. Rows that share a prompt may fit one pass where rows with separate prompts need several.
func grid(model string) []sample {
	update := func(rows, prompt, next int) sample {
		return sample{phase: fit.PhaseUpdate, rows: rows, prompt: prompt, next: next}
	}
	shared := func(rows, prompt, next, each int, ragged bool) sample {
		return sample{fit.PhaseUpdate, rows, prompt, next, each, ragged}
	}
	generate := func(rows, prompt, next int) sample {
		return sample{phase: fit.PhaseGenerate, rows: rows, prompt: prompt, next: next}
	}
	small := []sample{
		update(1, 192, 48), update(4, 192, 48), update(8, 64, 32), update(16, 192, 48), generate(64, 192, 48), generate(32, 64, 32),
		shared(5, 192, 48, 5, false), shared(16, 32, 50, 8, false), shared(16, 192, 48, 8, true), shared(48, 64, 32, 8, true),
	}
	if model != "nano" {
		small = []sample{update(1, 96, 32), update(4, 192, 64), generate(32, 96, 16)}
	}
	if os.Getenv(largeGrid) == "" {
		return small
	}
	var all []sample
	for _, rows := range []int{1, 2, 4, 8, 16} {
		for _, prompt := range []int{32, 64, 192} {
			all = append(all, update(rows, prompt, prompt/4))
		}
	}
	if model == "gpt2" {
		all = append(all, update(1, 768, 256), generate(16, 768, 16))
	}
	return append(all, generate(8, 192, 48), generate(32, 64, 32), generate(64, 128, 32), shared(5, 192, 48, 5, false),
		shared(8, 192, 32, 8, false))
}

// A node's estimated memory on a CPU is within a fifth of the measured memory of its engine, for any micro-batch,
// length and gradient checkpointing. Both exclude the interpreter and pages of files, because the engine host and all
// engines share the libraries. Both include the overhead of glibc's heap. With a C library other than Debian 12's the
// result may differ.
func TestEstimateOnCPU(t *testing.T) {
	t.Parallel()
	large := os.Getenv(largeGrid) != ""
	if testing.Short() && !large {
		t.Skip("takes half a minute")
	}
	models := []configs.Model{
		presetModel(t, "nano"),
		// GPT-2 with fewer layers and words. At full size an update takes minutes.
		shaped("gpt2-shaped", configs.Shape{Layers: 2, Heads: 12, Width: 768, Context: 1024, Vocabulary: 8192}),
	}
	if large {
		models = append(models, presetModel(t, "gpt2"))
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "model\tcheckpointing\tphase\tsequences\tlength\tmeasured MB\testimated MB\tdifference\tphase measured\tphase estimated\t")
	for _, m := range models {
		for _, checkpointing := range []bool{false, true} {
			e := startMeasured(t, m, checkpointing)
			for _, s := range grid(m.Name) {
				if s.phase == fit.PhaseGenerate && checkpointing {
					continue // checkpointing affects only the update
				}
				resident, peak := e.measure(t, s)
				f := fit.Sum(fit.Estimate(m, fit.DeviceCPU, s.settings(checkpointing), configs.AtOnce{Generate: s.rows, Update: s.counted()}))
				phase := f.Update
				if s.phase == fit.PhaseGenerate {
					phase = f.Generate
				}
				estimated := f.Resident - f.Context + phase
				off := float64(estimated)/float64(peak) - 1
				fmt.Fprintf(w, "%s\t%v\t%s\t%d\t%d+%d\t%.0f\t%.0f\t%+.0f %%\t%.0f\t%.0f\t\n", m.Name, checkpointing, s.phase, s.rows, s.prompt, s.next,
					mb(peak), mb(estimated), 100*off, mb(peak-resident), mb(phase))
				if math.Abs(off) > near || math.Abs(mb(phase)-mb(peak-resident)) > 3+0.25*mb(peak-resident) {
					t.Errorf("%s, checkpointing %v, %+v: measured %.0f MB, estimated %.0f MB", m.Name, checkpointing, s, mb(peak), mb(estimated))
				}
			}
			e.engine.Close()
		}
	}
	require.NoError(t, w.Flush())
	t.Logf("engine's process without the interpreter, at its peak:\n%s", table.String())
}

func mb(n int64) float64 { return float64(n) / 1e6 }

func presetModel(t *testing.T, name string) configs.Model {
	m, err := configs.LoadModel(name)
	require.NoError(t, err)
	return m
}

func shaped(name string, s configs.Shape) configs.Model {
	w := int64(s.Width)
	s.Parameters = int64(s.Vocabulary+s.Context)*w + int64(s.Layers)*(12*w*w+13*w) + 2*w
	return configs.Model{Name: name, Shape: s}
}

// counted returns the maximum rows in one pass. The plan assumes shared prompts. Rows without a shared prompt leave
// the rest of a pass empty.
func (s sample) counted() int {
	if s.each > 0 {
		return s.rows
	}
	return min(s.rows, fit.RowsAtOnce(false, s.prompt, s.next, 1))
}

func (s sample) settings(checkpointing bool) fit.Settings {
	settings := fit.Settings{
		GradientCheckpointing: checkpointing, Prompts: 8, Generations: 8, Sequences: 64,
		PromptTokens: s.prompt, NewTokens: s.next,
	}
	if s.phase == fit.PhaseGenerate {
		settings.Prompts, settings.Generations = max(1, s.rows/8), min(s.rows, 8)
	}
	return settings
}

// measuredEngine is an engine whose process is measured from outside.
type measuredEngine struct {
	engine *policy.Engine
	shape  configs.Shape
}

func startMeasured(t *testing.T, m configs.Model, checkpointing bool) measuredEngine {
	t.Helper()
	engineDir, err := policy.Extract(t.TempDir())
	require.NoError(t, err)
	return startMeasuredWith(t, m, checkpointing, policy.Options{
		Python: usablePython(t), Dir: engineDir, Stderr: os.Stderr, Env: append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"),
	})
}

func startMeasuredWith(t *testing.T, m configs.Model, checkpointing bool, options policy.Options) measuredEngine {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"model_type": "gpt2", "n_layer": m.Shape.Layers, "n_head": m.Shape.Heads, "n_embd": m.Shape.Width, "n_positions": m.Shape.Context,
		"vocab_size": m.Shape.Vocabulary, "eos_token_id": m.Shape.Vocabulary - 1,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	engine, err := policy.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	loaded, err := engine.Load(t.Context(), policy.LoadParams{
		ModelDir: dir, RandomInit: true, Device: "cpu", Precision: "fp32", Threads: 1, GradientCheckpointing: checkpointing,
		AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEpsilon: 1e-8,
	})
	require.NoError(t, err)
	require.Equal(t, m.Shape.Parameters, loaded.Parameters)
	e := measuredEngine{engine, m.Shape}
	e.run(t, sample{phase: fit.PhaseUpdate, rows: 1, prompt: 8, next: 8}) // allocates Adam's moments
	return e
}

// measure runs a sample and returns the process's memory before it and at its peak, without the interpreter, in
// bytes.
func (e measuredEngine) measure(t *testing.T, s sample) (resident, peak int64) {
	t.Helper()
	_, err := e.engine.Trim(t.Context())
	require.NoError(t, err)
	proc := filepath.Join("/proc", strconv.Itoa(e.engine.PID()))
	// Reset the peak to the current size (proc(5)).
	if err := os.WriteFile(filepath.Join(proc, "clear_refs"), []byte("5"), 0o644); err != nil {
		t.Skipf("a process's peak memory can't be reset here: %v", err)
	}
	resident = e.status(t, proc, "RssAnon:") - e.engine.Hello.AnonymousBytes
	before := e.status(t, proc, "VmRSS:") - e.status(t, proc, "RssFile:")
	e.run(t, s)
	// A call's first use maps pages of libraries, again if the kernel has dropped them.
	return resident, resident + e.status(t, proc, "VmHWM:") - e.status(t, proc, "RssFile:") - before
}

// status returns a size from /proc/PID/status, in bytes.
func (e measuredEngine) status(t *testing.T, proc, name string) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(proc, "status"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return n * 1024
		}
	}
	t.Fatalf("%s has no %s", proc, name)
	return 0
}

func (e measuredEngine) run(t *testing.T, s sample) {
	t.Helper()
	if s.phase == fit.PhaseGenerate {
		settings := s.settings(false)
		_, err := e.engine.Generate(t.Context(), policy.GenerateParams{
			Prompts: e.tokens(settings.Prompts, s.prompt), NumGenerations: settings.Generations, MaxNewTokens: s.next,
			Temperature: 1, TopP: 1, EOSTokenID: -1, Seed: 1,
		})
		require.NoError(t, err)
		return
	}
	p := policy.UpdateParams{
		Prompts: e.tokens((s.rows+max(1, s.each)-1)/max(1, s.each), s.prompt), LearningRate: 1e-6, Temperature: 1, Epsilon: 0.2, EpsilonHigh: 0.28, NumIterations: 1,
		LossType: "bnpo", MaxGradNorm: 1, MicroBatch: s.rows,
	}
	for i, completion := range e.tokens(s.rows, s.next) {
		if s.ragged && i%s.each > 0 {
			completion = completion[:s.next/4]
		}
		p.Sequences = append(p.Sequences, policy.Sequence{Prompt: i / max(1, s.each), Completion: completion, Advantage: float64(i%2)*2 - 1})
	}
	_, err := e.engine.Update(t.Context(), p)
	require.NoError(t, err)
}

// tokens returns rows of length ids each.
func (e measuredEngine) tokens(rows, length int) [][]int {
	all := make([][]int, rows)
	for i := range all {
		for j := range length {
			all[i] = append(all[i], (7*i+j)%(e.shape.Vocabulary-1))
		}
	}
	return all
}
