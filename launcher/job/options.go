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
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
)

// Values of Options.CPU.
const (
	CPUNever    = "never"
	CPUFallback = "fallback" // if no GPU is left to try
	CPUOnly     = "only"
)

// leastGPUMemory is the free memory that a GPU needs for a command of unknown size: guide 3's min_gpu_memory_mb.
const leastGPUMemory = 4_000_000_000

// Options are the user's options of a job. Memory is in bytes.
type Options struct {
	Name         string // empty: from the command
	MinGPUMemory int64  // ignore GPUs with less free memory; 0: leastGPUMemory if the command's need is unknown
	Memory       int64  // need of the command; 0: not declared
	GPU          string // index or UUID of the only acceptable GPU; empty: any
	CPU          string
	Wait         time.Duration // longest wait for a GPU, or for files that another job has changed; 0: don't wait
	Interval     time.Duration // between looks at the GPUs while waiting
	BatchSize    int           // of the first attempt; 0: the current value at a place that is only {batch_size}
	Accumulate   int
	MinBatchSize int
	MaxRetries   int
	Set          []string // FILE:KEY=TEXT with places
	Env          []string // NAME=TEXT with places
	Checkpoint   string   // ON|OFF: values of {gradient_checkpointing}
	Offload      string   // ON|OFF: values of {offload}
	Grace        time.Duration
	Forget       bool // ignore the results of earlier jobs

	Given map[string]bool // typed flags, out of min-gpu-memory, min-batch-size, accumulate and batch-size
}

// Session is a job's connection to the process that runs it.
type Session struct {
	Home           layout.Home
	Logger         *slog.Logger
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	// Announce is set for a job in the background. It moves Stdout and Stderr to the job's log and reports the start
	// to the process that started the job. nil: the job runs in the foreground and writes a log in addition to its
	// output.
	Announce func(job, log string) error
	// Report, if set, receives the job's document at its end. The command's stdout then goes to Stderr.
	Report func(jobstats.Job) error
	// ExitCode returns the process's exit code for an error, for the job's record.
	ExitCode func(error) int
}

// Check returns an error for options that are out of range or contradict each other.
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
		return &configs.Error{Key: "name", Value: o.Name, Source: "--name", Allowed: "up to 128 characters on one line, without /"}
	}
	return nil
}
