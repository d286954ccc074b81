package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
)

// What --cpu may be.
const (
	cpuNever    = "never"
	cpuFallback = "fallback"
	cpuOnly     = "only"
)

// leastGPUMemory is what a GPU must have free for a command of which nothing is known: guide 3's min_gpu_memory_mb.
const leastGPUMemory = 4_000_000_000

type runOptions struct {
	name         string
	minGPUMemory sizeFlag
	memory       sizeFlag
	gpu          string
	cpu          string
	wait         waitFlags
	batchSize    int
	accumulate   int
	minBatchSize int
	maxRetries   int
	set          []string
	env          []string
	checkpoint   string
	offload      string
	grace        time.Duration
	forget       bool
	detach       bool
	output       string

	chosen map[string]bool // flags that were typed
}

func newRunCommand(g *globals) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run any training command on the best GPU, and again with less memory where it runs out",
		Long: "run picks the GPU with most free memory, or waits for one, runs the command there and passes its output and exit code on. Where memory runs\n" +
			"out (torch, JAX, TensorFlow, CUDA, the host's OOM killer; other failures are never tried again) it halves the batch and doubles the\n" +
			"accumulation, so that the effective batch stays, then turns on gradient checkpointing, then offload, then takes another GPU, then the CPU\n" +
			"where --cpu allows it. What fitted is remembered for this command and GPU.\n\n" +
			"The values reach the command where its arguments, --env or --set say: {batch_size} {accumulate} {effective_batch}\n" +
			"{gradient_checkpointing} {offload} {device} {gpu}; {{batch_size}} is that text itself. A file that --set changes is put back afterwards.\n\n" +
			"Several at once share GPUs by what each declares (--memory) or was seen to need before, first come first served; a command of which\n" +
			"neither is known has its GPU to itself. swarm status, logs, compare and down know jobs by their names.",
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
			o.chosen = map[string]bool{}
			for _, name := range []string{"min-gpu-memory", "min-batch-size", "accumulate", "batch-size"} {
				o.chosen[name] = cmd.Flags().Changed(name)
			}
			return runRun(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	f.StringVar(&o.name, "name", "", "the job's `name` (default: the command's)")
	f.Var(&o.minGPUMemory, "min-gpu-memory", "leave out GPUs with less free memory than this `size`, such as 4 or 4GB (default 4GB where the command's need isn't known)")
	f.Var(&o.memory, "memory", "GPU memory that the command needs, a `size` such as 9GB: others may have the rest")
	f.StringVar(&o.gpu, "gpu", "", "this GPU alone: its `index` as swarm gpu shows it, or its UUID")
	f.StringVar(&o.cpu, "cpu", cpuNever, "never, fallback (where no GPU is left to try) or only: `whether` the CPU will do")
	o.wait.add(f)
	f.Lookup("wait-for-gpu").Usage = "wait up to this `time`, such as 60m, until a GPU has room for the command"
	f.IntVar(&o.batchSize, "batch-size", 0, "{batch_size} to begin with (default: what stands at a --set place that is {batch_size} alone)")
	f.IntVar(&o.accumulate, "accumulate", 1, "{accumulate} to begin with: batches to an optimizer step")
	f.IntVar(&o.minBatchSize, "min-batch-size", 4, "never a smaller batch than this")
	f.IntVar(&o.maxRetries, "max-retries", 3, "`times` to try again after memory ran out")
	f.StringArrayVar(&o.set, "set", nil, "change a value in a YAML, JSON or key=value file while the command runs: `FILE:KEY={batch_size}` (repeatable)")
	f.StringArrayVar(&o.env, "env", nil, "give the command a variable: `NAME={batch_size}` (repeatable)")
	f.StringVar(&o.checkpoint, "gradient-checkpointing", "true|false", "`ON|OFF`: what {gradient_checkpointing} becomes; ON alone: nothing while it is off")
	f.StringVar(&o.offload, "offload", "true|false", "`ON|OFF`: what {offload} becomes")
	f.DurationVar(&o.grace, "grace", 30*time.Second, "how long the command may take to end after Ctrl-C or swarm down, a `time`")
	f.BoolVar(&o.forget, "forget", false, "begin as asked, whatever fitted or ran out before: the command has changed")
	f.BoolVar(&o.detach, "detach", false, "return at once: the command goes on in the background")
	addOutputFlag(f, &o.output)
	return cmd
}

func (o *runOptions) check() error {
	switch {
	case o.cpu != cpuNever && o.cpu != cpuFallback && o.cpu != cpuOnly:
		return &configs.Error{Key: "cpu", Value: o.cpu, Source: "--cpu", Allowed: "never, fallback or only"}
	case o.batchSize < 0 || o.batchSize == 0 && o.chosen["batch-size"] || o.batchSize > 1<<30:
		return &configs.Error{Key: "batch-size", Value: fmt.Sprint(o.batchSize), Source: "--batch-size", Allowed: "a whole number from 1"}
	case o.accumulate < 1 || o.accumulate > 1<<30:
		return &configs.Error{Key: "accumulate", Value: fmt.Sprint(o.accumulate), Source: "--accumulate", Allowed: "a whole number from 1"}
	case o.minBatchSize < 1:
		return &configs.Error{Key: "min-batch-size", Value: fmt.Sprint(o.minBatchSize), Source: "--min-batch-size", Allowed: "a whole number from 1"}
	case o.maxRetries < 0 || o.maxRetries > 100:
		return &configs.Error{Key: "max-retries", Value: fmt.Sprint(o.maxRetries), Source: "--max-retries", Allowed: "a whole number from 0 to 100"}
	case o.grace < 0 || o.grace > 24*time.Hour:
		return &configs.Error{Key: "grace", Value: o.grace.String(), Source: "--grace", Allowed: "a time from 0s to 24h"}
	case o.gpu != "" && o.cpu == cpuOnly:
		return fail.Usage(errors.New("--gpu and --cpu only exclude each other"), "one of them")
	case strings.ContainsAny(o.name, "\x00\n/") || len(o.name) > 128:
		return &configs.Error{Key: "name", Value: o.name, Source: "--name", Allowed: "up to 128 letters of one line, without /"}
	}
	if _, err := o.minGPUMemory.bytes("min-gpu-memory"); err != nil {
		return err
	}
	if _, err := o.memory.bytes("memory"); err != nil {
		return err
	}
	return errors.Join(o.wait.check(), checkOutput(o.output))
}

func runRun(ctx context.Context, g *globals, o *runOptions, argv []string) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("the folder to run in: %w", err)
	}
	places, err := parsePlaces(dir, o, argv)
	if err != nil {
		return err
	}
	if o.detach && !inBackground(g) {
		return inTheBackground(g, o.output)
	}
	// Whoever read our output may go away: no reason to die. Ignored, it would be ignored by the command's pipes, too.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Ignore(syscall.SIGPIPE) // as for every command
	j := &job{g: g, o: o, dir: dir, places: places}
	j.stdout, j.stderr, j.together = outputLines(g)
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping the command. Again to stop it at once.")
	defer interrupts.Close()
	j.interrupts = interrupts
	return j.run(ctx)
}

// loanState is where files that --set changes are kept until they are put back.
func (g *globals) loanState() string { return g.home.Jobs() + "/lent" }

// recoverLoans puts back what jobs that died left changed, and says so.
func recoverLoans(g *globals) error {
	restored, err := settings.Recover(g.loanState())
	for _, r := range restored {
		if r.Left != "" {
			fmt.Fprintf(g.stderr, "swarm run: %s still has what a job that died set: %s\n", r.Path, r.Left)
			continue
		}
		fmt.Fprintf(g.stderr, "swarm run: %s is as it was before a job that died\n", r.Path)
	}
	return err
}
