package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
)

type runOptions struct {
	job.Options
	minGPUMemory, memory plan.Size
	wait                 plan.Wait
	detach               bool
	output               string
}

func newRunCommand(g *globals) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run any training on the best GPU, again with less memory if needed",
		Long: "run picks the GPU with most free memory, or waits for one, runs the command there and passes on its\n" +
			"output and exit code. If memory runs out (torch, JAX, TensorFlow, CUDA, the host's OOM killer), it\n" +
			"halves the batch and doubles the accumulation, so that the effective batch stays the same, then\n" +
			"turns on gradient checkpointing, then offload, then tries another GPU, then the CPU if --cpu allows\n" +
			"it. It never repeats other failures. What fitted is remembered for this command and GPU.\n\n" +
			"The values reach the command through its arguments, --env or --set: {batch_size} {accumulate}\n" +
			"{effective_batch} {gradient_checkpointing} {offload} {device} {gpu}. {{batch_size}} is that text\n" +
			"itself. A file that --set changes is restored afterwards.\n\n" +
			"Several jobs share GPUs by the memory that each declares (--memory) or needed before, first come,\n" +
			"first served. A command with neither has its GPU to itself. `swarm status`, `logs`, `compare` and\n" +
			"`down` know jobs by their names.",
		Example: `  swarm run --batch-size 128 -- python train.py training.batch_size={batch_size} training.gradient_accumulation_steps={accumulate}
  swarm run --wait-for-gpu 60m --min-gpu-memory 6GB --set conf/config.yaml:data_loader.batch_size={batch_size} -- python train.py
  swarm run --memory 9GB --cpu fallback --batch-size 32 --env BATCH={batch_size} -- ./train.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fail.Usage(errors.New("a command is missing"), "swarm run [flags] -- python train.py training.batch_size={batch_size}")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Given = map[string]bool{}
			for _, name := range []string{"min-gpu-memory", "min-batch-size", "accumulate", "batch-size"} {
				o.Given[name] = cmd.Flags().Changed(name)
			}
			return runRun(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command's name belong to the command
	f.StringVar(&o.Name, "name", "", "the job's `name` (default: the command's)")
	f.Var(&o.minGPUMemory, "min-gpu-memory", "leave out GPUs with less free memory than this `size`, such as 4 or 4GB (default 4GB if the command's need is unknown)")
	f.Var(&o.memory, "memory", "GPU memory that the command needs, a `size` such as 9GB; other jobs may use the rest")
	f.StringVar(&o.GPU, "gpu", "", "use only this GPU: its `index` in swarm gpu, or its UUID")
	f.StringVar(&o.CPU, "cpu", job.CPUNever, "`whether` to use the CPU: never, fallback (if no GPU is left to try) or only")
	addWaitFlags(f, &o.wait)
	f.Lookup("wait-for-gpu").Usage = "wait up to this `time`, such as 60m, until a GPU has room for the command"
	f.IntVar(&o.BatchSize, "batch-size", 0, "initial {batch_size} (default: the file's value at a --set KEY={batch_size})")
	f.IntVar(&o.Accumulate, "accumulate", 1, "initial {accumulate}: batches per optimizer step")
	f.IntVar(&o.MinBatchSize, "min-batch-size", 4, "minimum batch size")
	f.IntVar(&o.MaxRetries, "max-retries", 3, "maximum number of `times` to retry after memory ran out")
	f.StringArrayVar(&o.Set, "set", nil, "change a value in a YAML, JSON or key=value file while the command runs: `FILE:KEY={batch_size}` (repeatable)")
	f.StringArrayVar(&o.Env, "env", nil, "give the command a variable: `NAME={batch_size}` (repeatable)")
	f.StringVar(&o.Checkpoint, "gradient-checkpointing", "true|false", "`ON|OFF`: text for {gradient_checkpointing} when on and off; ON alone: empty when off")
	f.StringVar(&o.Offload, "offload", "true|false", "`ON|OFF`: text for {offload} when on and off")
	f.DurationVar(&o.Grace, "grace", 30*time.Second, "`time` for the command to end after Ctrl-C or swarm down")
	f.BoolVar(&o.Forget, "forget", false, "ignore what fitted or ran out of memory before, because the command has changed")
	f.BoolVar(&o.detach, "detach", false, "return at once; the command continues in the background")
	addOutputFlag(f, &o.output)
	return cmd
}

// check refuses flags that are out of range, and parses the sizes.
func (o *runOptions) check() (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	if o.MinGPUMemory, err = o.minGPUMemory.Bytes("min-gpu-memory"); err != nil {
		return err
	}
	if o.Memory, err = o.memory.Bytes("memory"); err != nil {
		return err
	}
	o.Wait, o.Interval = o.wait.Limit, o.wait.Interval
	return errors.Join(o.wait.Check(), checkOutput(o.output))
}

func runRun(ctx context.Context, g *globals, o *runOptions, argv []string) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("cannot read the working folder: %w", err)
	}
	j, err := job.New(o.Options, dir, argv)
	if err != nil {
		return err
	}
	if o.detach && !inBackground(g) {
		return inTheBackground(g, o.output)
	}
	// A closed stdout must not end the command. signal.Ignore would make the command ignore SIGPIPE, too, so handle
	// it.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Ignore(syscall.SIGPIPE) // as in every command
	s := job.Session{
		Home: g.home, Logger: g.logger, Stdin: g.stdin, Stdout: g.stdout, Stderr: g.stderr, Environ: os.Environ(), ExitCode: exitCode,
	}
	if g.console != nil {
		s.Announce = func(job, log string) error {
			return g.console.Announce(background.Announcement{Job: job, PID: os.Getpid(), Log: log})
		}
	}
	if o.output == "json" {
		s.Report = func(job jobstats.Job) error { return writeJSON(g.stdout, job) }
	}
	return j.Run(ctx, s)
}
