package job

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// What Options.CPU may be.
const (
	CPUNever    = "never"
	CPUFallback = "fallback" // where no GPU is left to try
	CPUOnly     = "only"
)

// leastGPUMemory is what a GPU must have free for a command of which nothing is known: guide 3's min_gpu_memory_mb.
const leastGPUMemory = 4_000_000_000

// Options are what a user asks of a job. Memory is in bytes.
type Options struct {
	Name         string // empty: the command's
	MinGPUMemory int64  // GPUs with less free are left out; 0: leastGPUMemory where the command's need isn't known
	Memory       int64  // that the command needs; 0: not declared
	GPU          string // index or UUID of the only one that will do; empty: any
	CPU          string
	Wait         time.Duration // for a GPU, or for files that another job has changed; 0: don't
	Interval     time.Duration // of looking meanwhile
	BatchSize    int           // to begin with; 0: what stands at a place that is {batch_size} alone
	Accumulate   int
	MinBatchSize int
	MaxRetries   int
	Set          []string // FILE:KEY=TEXT with places
	Env          []string // NAME=TEXT with places
	Checkpoint   string   // ON|OFF: what {gradient_checkpointing} becomes
	Offload      string   // ON|OFF: what {offload} becomes
	Grace        time.Duration
	Forget       bool // what fitted or ran out before

	Given map[string]bool // flags that were typed, of min-gpu-memory, min-batch-size, accumulate and batch-size
}

// Session is what a job has of the process that runs it.
type Session struct {
	Home           layout.Home
	Logger         *slog.Logger
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	// Announce, of a job in the background, moves Stdout and Stderr to the job's log and tells whoever started the job
	// that it has begun; nil: the job is in the foreground and keeps a log beside what it prints.
	Announce func(job, log string) error
	// Report, if set, gets the job's document when it has ended. The command's stdout then goes to Stderr.
	Report func(stats.Job) error
	// ExitCode is the process's exit code for an error, which the job's record gets.
	ExitCode func(error) int
}

// Check refuses what is out of range or contradicts itself.
func (o *Options) Check() error {
	switch {
	case o.CPU != CPUNever && o.CPU != CPUFallback && o.CPU != CPUOnly:
		return &configs.Error{Key: "cpu", Value: o.CPU, Source: "--cpu", Allowed: "never, fallback or only"}
	case o.BatchSize < 0 || o.BatchSize == 0 && o.Given["batch-size"] || o.BatchSize > 1<<30:
		return &configs.Error{Key: "batch-size", Value: fmt.Sprint(o.BatchSize), Source: "--batch-size", Allowed: "a whole number from 1"}
	case o.Accumulate < 1 || o.Accumulate > 1<<30:
		return &configs.Error{Key: "accumulate", Value: fmt.Sprint(o.Accumulate), Source: "--accumulate", Allowed: "a whole number from 1"}
	case o.MinBatchSize < 1:
		return &configs.Error{Key: "min-batch-size", Value: fmt.Sprint(o.MinBatchSize), Source: "--min-batch-size", Allowed: "a whole number from 1"}
	case o.MaxRetries < 0 || o.MaxRetries > 100:
		return &configs.Error{Key: "max-retries", Value: fmt.Sprint(o.MaxRetries), Source: "--max-retries", Allowed: "a whole number from 0 to 100"}
	case o.Grace < 0 || o.Grace > 24*time.Hour:
		return &configs.Error{Key: "grace", Value: o.Grace.String(), Source: "--grace", Allowed: "a time from 0s to 24h"}
	case o.GPU != "" && o.CPU == CPUOnly:
		return fail.Usage(errors.New("--gpu and --cpu only exclude each other"), "one of them")
	case strings.ContainsAny(o.Name, "\x00\n/") || len(o.Name) > 128:
		return &configs.Error{Key: "name", Value: o.Name, Source: "--name", Allowed: "up to 128 letters of one line, without /"}
	}
	return nil
}
