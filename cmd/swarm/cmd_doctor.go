package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/diagnose"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/policy"
)

// finding is one thing that doctor looked at.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Unfit bool   `json:"unfit,omitempty"` // an interpreter that can't be used, where another one can
	Try   string `json:"try,omitempty"`   // what to do; for an OK one, how it could be better
}

func newDoctorCommand(g *globals) *cobra.Command {
	var o diagnose.Options
	var output string
	cmd := &cobra.Command{
		Use:   "doctor [--oom LOG [--workload NAME or FILE]]",
		Short: "Look at what swarm needs on this machine, or into a log of a training that ran out of memory",
		Long: "doctor says what swarm needs on this machine: what is found, what is missing, what to do.\n\n" +
			"doctor --oom LOG reads any training's log: that memory ran out, in numbers (asked, free, held by whom), and what to do about it in which\n" +
			"order, with the exact edits for a workload profile (swarm tune --list). LOG may be a folder, for the newest log in it, or - for stdin.\n" +
			"It exits with 0 where memory had run out, with 1 where the log tells of no shortage.",
		Example: "  swarm doctor\n  swarm doctor --oom logs/slurm-123.err\n  swarm doctor --oom logs --workload verl-grpo --dir ~/grpo",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("oom") {
				return runDoctorOOM(g, o, output)
			}
			for _, name := range []string{"workload", "dir"} {
				if cmd.Flags().Changed(name) {
					return fail.Usage(fmt.Errorf("--%s goes with --oom", name), "swarm doctor --oom LOG --"+name+" ...")
				}
			}
			return runDoctor(cmd.Context(), g, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Log, "oom", "", "explain the `log` of a training that ran out of memory: a file, a folder, or - for stdin")
	f.StringVar(&o.Workload, "workload", "", "with --oom: profile's `name`, or its YAML file (default: guessed from the log)")
	f.StringVar(&o.Dir, "dir", ".", "with --oom: `folder` of the training, where its configuration files are")
	addOutputFlag(f, &output)
	return cmd
}

// runDoctorOOM explains a training's log. Exit code 0: it was a shortage of memory; 1: the log tells of none.
func runDoctorOOM(g *globals, o diagnose.Options, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	o.Stdin, o.Stderr = g.stdin, g.stderr
	d, err := diagnose.Explain(o)
	if err != nil {
		return err
	}
	if output == "json" {
		err = writeJSON(g.stdout, d)
	} else {
		err = screen.Print(g.stdout, d.Print)
	}
	if err == nil && d.Shortage == nil {
		return fail.Exit(fail.ExitFailed)
	}
	return err
}

func runDoctor(ctx context.Context, g *globals, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	findings := []finding{
		{Check: "swarm", OK: true, Found: fmt.Sprintf("%s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		checkHome(g.home),
		checkDatabase(ctx, g),
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	findings = append(findings, checkHost(host)...)
	findings = append(findings, checkPython(ctx, g, host)...)
	bad := 0
	for _, f := range findings {
		if !f.OK {
			bad++
		}
	}
	if output == "json" {
		if err := writeJSON(g.stdout, findings); err != nil {
			return err
		}
	} else if err := screen.Print(g.stdout, func(p *table.Page) { p.Table(doctorTable(findings)) }); err != nil {
		return err
	}
	if bad > 0 {
		return fail.Exit(fail.ExitFailed)
	}
	return nil
}

func doctorTable(findings []finding) *table.Table {
	t := table.New(table.Column{}, table.Column{}, table.Column{Wrap: true})
	for _, f := range findings {
		mark := "ok"
		switch {
		case !f.OK:
			mark = "MISSING"
		case f.Unfit:
			mark = "skipped"
		}
		t.Add(mark, f.Check, f.Found)
		if f.Try != "" {
			t.Add("", "", "Try: "+f.Try)
		}
	}
	return t
}

func checkHome(home layout.Home) finding {
	f := finding{Check: "home", Found: string(home)}
	if err := os.MkdirAll(string(home), 0o755); err != nil {
		f.Found, f.Try = err.Error(), "another --home, or mend the folder's permissions"
		return f
	}
	probe, err := os.CreateTemp(string(home), ".doctor-*")
	if err != nil {
		f.Found, f.Try = err.Error(), "another --home, or mend the folder's permissions"
		return f
	}
	probe.Close()
	os.Remove(probe.Name())
	usage, err := disk.Usage(string(home))
	if err != nil {
		f.Found, f.Try = err.Error(), "another --home"
		return f
	}
	f.OK = usage.Free > coordinator.MinFreeDisk
	f.Found = fmt.Sprintf("%s, %s free", home, units.Bytes(int64(usage.Free)))
	if !f.OK {
		f.Try = "free some space, or put --home on another disk"
	}
	return f
}

func checkDatabase(ctx context.Context, g *globals) finding {
	f := finding{Check: "database", OK: true}
	reader, err := store.OpenReader(ctx, g.home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		f.Found = "none yet"
		return f
	}
	if err == nil {
		defer reader.Close()
		runs, queryErr := reader.Runs(ctx, store.Filter{})
		err = queryErr
		f.Found = g.home.Database() + ", " + units.Plural(len(runs), "run")
	}
	if err != nil {
		f.OK, f.Found, f.Try = false, err.Error(), remedy(err)
	}
	return f
}

func checkHost(host gpu.Host) []finding {
	list := []finding{{Check: "host", OK: true, Found: fmt.Sprintf("%s, %s of memory, %s free", units.Plural(host.Cores, "core"), units.Bytes(host.MemoryTotal), units.Bytes(host.MemoryAvailable))}}
	for _, d := range host.GPUs {
		f := finding{Check: "GPU " + fmt.Sprint(d.Index), OK: !d.MIG, Found: fmt.Sprintf("%s, %s, %s free, driver %s", d.Name, units.Bytes(d.MemoryTotal), units.Bytes(d.MemoryFree), host.Driver)}
		if d.MIG {
			f.Found += ", split into MIG instances"
			f.Try = "sudo nvidia-smi -mig 0"
		}
		list = append(list, f)
	}
	if f, ok := checkMPS(host); ok {
		list = append(list, f)
	}
	if len(host.GPUs) == 0 {
		// No fault: the bundled model trains on the CPU.
		reason, try := fail.SplitRemedy(host.Reason)
		list = append(list, finding{Check: "GPU", OK: true, Found: "none: " + reason, Try: try})
	}
	return list
}

// checkMPS tells whether MPS can be had, as far as that shows before a daemon is started. That it can't is no fault: there are other
// ways to share. It is not ok where there is no whole GPU to share.
func checkMPS(host gpu.Host) (finding, bool) {
	need := mps.Need{GPUsPerNode: 1}
	for _, d := range host.GPUs {
		if !d.MIG && d.InstanceOf == nil {
			need.GPUs = append(need.GPUs, plan.MPSGPU(d, 1))
		}
	}
	if len(need.GPUs) == 0 {
		return finding{}, false
	}
	f := finding{Check: "MPS", OK: true, Found: "can be had; --share auto takes it where all nodes' memory fits and its proof passes"}
	if err := mps.Check(need); err != nil {
		f.Found, f.Try = fail.SplitRemedy(err.Error())
	}
	return f, true
}

func checkPython(ctx context.Context, g *globals, host gpu.Host) []finding {
	python, probes, err := g.python.Search(ctx)
	list := withoutTorch(probes, err == nil)
	if err != nil {
		if len(probes) == 0 {
			list = append(list, finding{Check: "python", Found: "no python3 found"})
		}
		list[len(list)-1].Try = remedy(err)
		return list
	}
	f := finding{Check: "python", OK: true, Found: fmt.Sprintf("%s (%s), torch %s", python.Path, python.Source, python.Torch)}
	if host.Device == gpu.CUDA && !python.CUDA {
		f.OK, f.Try = false, "a PyTorch built for CUDA: pip install torch, then --python PATH"
		f.Found += ", built without CUDA"
	}
	return append(list, f, checkEngine(ctx, g, host))
}

// withoutTorch are the interpreters that can't be used. They are skipped where another one can.
func withoutTorch(probes []policy.Probe, another bool) (list []finding) {
	for _, p := range probes {
		if p.Torch == "" {
			list = append(list, finding{Check: "python", OK: another, Unfit: true, Found: fmt.Sprintf("%s (%s): %s", p.Path, p.Source, p.Err)})
		}
	}
	return list
}

// checkEngine starts the real engine: what imports torch may still fail to run it.
func checkEngine(ctx context.Context, g *globals, host gpu.Host) finding {
	f := finding{Check: "engine"}
	began := time.Now()
	engine, err := startEngine(ctx, g, host.Cores)
	if err != nil {
		f.Found, f.Try = err.Error(), "another --python"
		return f
	}
	defer engine.Close()
	h := engine.Hello
	f.OK = true
	f.Found = fmt.Sprintf("answers after %.1f s, torch %s, BLAS %s, CUDA %t, %s resident", time.Since(began).Seconds(), h.Torch, h.BLAS, h.CUDA, units.Bytes(h.RSSBytes))
	if _, err := g.python.Host(); err != nil {
		f.Found += "; started by itself: " + err.Error()
	}
	if host.Device == gpu.CUDA && !h.CUDA {
		f.OK, f.Try = false, "check that the driver fits this PyTorch: nvidia-smi, python3 -c 'import torch; torch.zeros(1).cuda()'"
	}
	return f
}
