package recorded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/tokenizer"
	"github.com/sapo-swarm/swarm/node/verify"
)

// Verify verifies a run whose folder is in this home.
func Verify(ctx context.Context, h plan.Host, reader *store.Reader, s store.Snapshot, generate bool) (verify.Report, error) {
	v := &verification{h: h, run: s.Run, dir: h.Home.Path("runs", s.Run.Run)}
	if err := v.prepare(ctx); err != nil {
		return verify.Report{}, err
	}
	total, nodes, foreign, from := 0, []string(nil), []string(nil), map[string]int{}
	for _, n := range s.Nodes {
		if n.Worker != "" {
			foreign = append(foreign, n.Node)
			continue
		}
		nodes = append(nodes, n.Node)
		from[n.Node] = n.From
		total += n.RoundsDone
	}
	scratch, err := os.MkdirTemp("", "swarm-verify-")
	if err != nil {
		return verify.Report{}, fmt.Errorf("verify: %w", err)
	}
	defer os.RemoveAll(scratch)
	own, err := v.settings(nodes)
	if err != nil {
		return verify.Report{}, err
	}
	jobs := 1 // a GPU is only sure to fit one
	if plan.EngineDevice(v.p.Plan) == fit.DeviceCPU {
		jobs = max(1, runtime.GOMAXPROCS(0)/max(1, v.p.Plan.Threads))
	}
	progress := newVerifyProgress(h.Stderr, total)
	defer progress.line.End()
	report, err := verify.Run(ctx, verify.Options{
		Dir: v.dir, Nodes: nodes, Foreign: foreign, From: from, Config: v.p.Config, Own: own, Records: recordedRun{reader, s.Run.Run}, Start: v.start,
		Lowered: lowered(s.Alarms), Exact: v.inexact() == "", Inexact: v.inexact(), Generate: generate, Jobs: jobs, Scratch: scratch, Logger: h.Logger, Progress: progress.tell,
	})
	if err != nil {
		return report, err
	}
	return report, v.explain(ctx, reader, report)
}

// lowered returns the rounds from which on alarms lowered the learning rate.
func lowered(alarms []store.Alarm) (rounds []int) {
	for _, a := range alarms {
		if a.LowerFrom > 0 {
			rounds = append(rounds, a.LowerFrom)
		}
	}
	return rounds
}

// Ended rejects a run that is still running or was interrupted: its database may lack rows that its journals have.
func Ended(s store.Snapshot) error {
	run := s.Run
	switch {
	case run.State != store.RunRunning:
		return nil
	case lifecycle.Alive(s, event.Now()):
		return fail.Usage(fmt.Errorf("run %s is still running", run.Run), "again when it is done, or swarm down "+run.Run+", which stops it after a checkpoint")
	}
	return fail.Usage(fmt.Errorf("run %s was interrupted", run.Run), "continue it with swarm up and its configuration, then verify it")
}

// rounding has the memory steps after which sums may be rounded differently.
var rounding = []string{event.ActionHalveMicroBatch, event.ActionCheckpointing, event.ActionOptimizerOffload, event.ActionParamOffload, event.ActionCPU}

// explain adds a possible cause to the reports of nodes that differ: memory ran out, and smaller batches round
// differently.
func (v *verification) explain(ctx context.Context, reader *store.Reader, report verify.Report) error {
	differing := map[string]*verify.NodeReport{}
	for i, n := range report.Nodes {
		if len(n.Differences) > 0 {
			differing[n.Node] = &report.Nodes[i]
		}
	}
	const page = 500
	for after := int64(0); len(differing) > 0; {
		entries, err := reader.Timeline(ctx, v.run.Run, after, page)
		if err != nil {
			return err
		}
		for _, x := range entries {
			after = x.ID
			n, step := differing[x.Event.Node], x.Event.MemoryStep
			if n != nil && step != nil && slices.Contains(rounding, step.Action) {
				n.Notes = append(n.Notes, fmt.Sprintf("memory ran out in round %d (%s, %s): from this round on sums may be rounded differently",
					step.Round, step.Phase, step.Action))
				delete(differing, x.Event.Node)
			}
		}
		if len(entries) < page {
			break
		}
	}
	return nil
}

// verification has the settings for the engines, as the run had them.
type verification struct {
	h   plan.Host
	run store.Run
	dir string

	p         plan.Planned      // configuration, models and plan
	modelDirs map[string]string // by model key
	engineDir string
	python    policy.Probe
	same      bool // the engine is the same version as the run's
	sameTorch bool // so is torch, or the run has recorded none
}

// inexact returns why the bits may differ from the run's, or "" if they must be equal.
func (v *verification) inexact() string {
	switch device := plan.EngineDevice(v.p.Plan); {
	case device != fit.DeviceCPU:
		return device + " does not compute the same bits each time"
	case !v.same:
		return "another version of the engine made the run"
	case !v.sameTorch:
		return "another version of PyTorch made the run"
	}
	return ""
}

func (v *verification) prepare(ctx context.Context) error {
	if _, err := os.Stat(v.dir); err != nil {
		return v.h.Home.RunError(v.run.Run, err)
	}
	var made coordinator.Versions
	err := errors.Join(json.Unmarshal(v.run.Config, &v.p.Config), json.Unmarshal(v.run.Plan, &v.p.Plan), json.Unmarshal(v.run.Versions, &made))
	if err != nil {
		return fmt.Errorf("read the recorded configuration of run %s: %w", v.run.Run, err)
	}
	if v.p.Models, err = model.Of(v.p.Config); err != nil {
		return err
	}
	v.p.Model, v.modelDirs = v.p.Models[0], map[string]string{}
	for _, m := range v.p.Models {
		if v.modelDirs[m.Key()], err = model.Resolve(m, string(v.h.Home)); err != nil {
			return err
		}
	}
	if err := v.sameInputs(ctx, made.Inputs); err != nil {
		return err
	}
	if v.python, err = v.h.Python.Find(ctx); err != nil {
		return err
	}
	if plan.EngineDevice(v.p.Plan) != fit.DeviceCPU && !v.python.CUDA {
		return plan.NoCUDA(v.python, "run "+v.run.Run+" was trained on a GPU")
	}
	if v.sameTorch = made.Torch == "" || made.Torch == v.python.Torch; !v.sameTorch {
		v.h.Logger.Warn("this torch differs from the run's: sums may differ slightly", "run", made.Torch, "here", v.python.Torch)
	}
	if v.engineDir, err = policy.Extract(string(v.h.Home)); err != nil {
		return err
	}
	if v.same = made.Engine == policy.Digest(v.engineDir); !v.same {
		v.h.Logger.Warn("this engine differs from the run's: sums may differ slightly", "run", cmp.Or(made.Engine, "unknown, or several"),
			"here", policy.Digest(v.engineDir))
	}
	return nil
}

// sameInputs rejects initial weights or question files that differ from the run's. It uses the weights of an
// earlier program if they are still present.
func (v *verification) sameInputs(ctx context.Context, began map[string]string) error {
	inputs, err := plan.InputsOf(ctx, v.p, v.modelDirs)
	if err != nil {
		return err
	}
	if _, err := plan.Former(ctx, v.h.Home, v.p, v.modelDirs, inputs, began); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if was := began[name]; was != "" && was != inputs[name] {
			return fail.Hint(
				fmt.Errorf("run %s cannot be verified: the contents of %s have changed since it began (sha256 %.12s → %.12s)", v.run.Run, name, was, inputs[name]),
				plan.FormerFiles(v.p, v.h.Home, name))

		}
	}
	return nil
}

// modelDir returns the folder with a model's weights.
func (v *verification) modelDir(key string) string { return v.modelDirs[v.p.Of(key).Key()] }

// settings returns each node's configuration and tokenizer.
func (v *verification) settings(nodes []string) (map[string]verify.Setting, error) {
	tokens, own := map[string]tokenizer.Tokenizer{}, map[string]verify.Setting{}
	for _, node := range nodes {
		config := v.p.Config.OfNode(configs.NodeIndex(node))
		if tokens[config.Model] == nil {
			var err error
			if tokens[config.Model], err = tokenizer.Open(v.p.Of(config.Model).Tokenizer, v.modelDir(config.Model)); err != nil {
				return nil, err
			}
		}
		own[node] = verify.Setting{Config: config, Tokens: tokens[config.Model]}
	}
	return own, nil
}

// start starts a node's engine.
func (v *verification) start(ctx context.Context, node string) (verify.Engine, int, error) {
	index := configs.NodeIndex(node)
	config := v.p.Config.OfNode(index)
	assignment := protocol.Start{
		Node: node, Python: v.python.Path, EngineDir: v.engineDir, ModelDir: v.modelDir(config.Model), Device: plan.EngineDevice(v.p.Plan), Threads: v.p.Plan.Threads,
		Ranks: v.p.Plan.Ranks(),
	}
	environ := slices.Concat(os.Environ(), v.p.Plan.Environment(index))
	engine, length, err := verify.StartEngine(ctx, assignment, config, environ, v.h.Stderr, v.h.Python.Client())
	if err != nil {
		return nil, 0, err
	}
	return engine, length, nil
}

// recordedRun reads a run's records from the database.
type recordedRun struct {
	reader *store.Reader
	run    string
}

// Rounds implements verify.Records.
func (r recordedRun) Rounds(ctx context.Context, node string, from, limit int) ([]event.Round, error) {
	return r.reader.NodeRounds(ctx, r.run, node, from, limit)
}

// Hashes implements verify.Records.
func (r recordedRun) Hashes(ctx context.Context, node string) (map[int]string, error) {
	all, err := r.reader.Checkpoints(ctx, r.run)
	hashes := map[int]string{}
	for _, c := range all {
		if c.Node == node {
			hashes[c.Round] = c.WeightHash
		}
	}
	return hashes, err
}

// verifyProgress reports progress.
type verifyProgress struct {
	line        *screen.StatusLine
	began       time.Time
	done, total int // node-rounds
}

func newVerifyProgress(out io.Writer, total int) *verifyProgress {
	return &verifyProgress{line: screen.NewStatusLine(out, 10*time.Second), began: time.Now(), total: total}
}

func (p *verifyProgress) tell(string, int) {
	p.done++
	left := ""
	if spent := time.Since(p.began); spent > 3*time.Second && p.done < p.total {
		estimate := time.Duration(float64(spent) / float64(p.done) * float64(p.total-p.done))
		left = fmt.Sprintf(", about %s left", estimate.Round(time.Second))
	}
	p.line.Say(fmt.Sprintf("verified %d of %d node-rounds%s", p.done, p.total, left))
}
