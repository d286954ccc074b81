package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/mpsclient"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Exit codes of a node's process, as agreed with the launcher (docs/ARCHITECTURE.md).
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitConfig = 2
	ExitMemory = 3
)

const (
	heartbeat    = 10 * time.Second
	loadDeadline = 15 * time.Minute
	dialDeadline = time.Minute

	// halfPrecision is the warning of guide 4 (docs/GUIDES.md).
	halfPrecision = "precision fp16 is not recommended: gradients may underflow or overflow, losses become NaN, and GRPO unstable. " +
		"Try: precision tf32, bf16 if memory is short, or fp32 on a GPU before Ampere"
)

// errTerminated ends a node that received a second SIGTERM.
var errTerminated = errors.New("terminated by a second SIGTERM")

// Failure is an error with the cause that the launcher acts on.
type Failure struct {
	Cause string
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Process runs one node over the launcher's pipes until its rounds are done, a stop, a failure, or the launcher's
// death. It reports a failure before it returns the process's exit code.
func Process(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, environ []string, logger *slog.Logger) int {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	link := NewLink(stdin, stdout, gone)
	defer obeySignals(link, gone, logger)()
	start, err := link.Assignment()
	if err != nil {
		logger.Error("no assignment", "error", err)
		var broken *fs.PathError
		if errors.As(err, &broken) || errors.Is(err, io.EOF) {
			return ExitFailed // the pipe broke, not the assignment: another process may read it whole
		}
		link.Emit(event.Event{Type: event.TypeFailure, Cause: event.CauseConfig, Message: err.Error()})
		return ExitConfig
	}
	logger = logger.With("run", start.Run, "node", start.Node)
	go link.Serve()

	kills := hostmem.OOMKills()
	err = run(ctx, link, start, environ, stderr, logger)
	if err == nil || errors.Is(err, ErrStopped) {
		return ExitDone
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrOrphaned) || errors.Is(cause, errTerminated) {
		logger.Error("stopping", "reason", context.Cause(ctx))
		return ExitFailed
	}
	failure := classify(err)
	if failure.Cause == event.CauseHostOutOfMemory && killed(err) && kills >= 0 && hostmem.OOMKills() == kills {
		failure = killedByOther(err)
	}
	var exit *policy.ExitError
	if errors.As(err, &exit) && exit.Unknown && kills >= 0 && hostmem.OOMKills() > kills {
		failure = &Failure{event.CauseHostOutOfMemory, fmt.Errorf("%w; the kernel's out-of-memory killer killed a process in the meantime", err)}
	}
	logger.Error("node failed", "cause", failure.Cause, "error", failure.Err)
	link.Emit(event.Event{Type: event.TypeFailure, Cause: failure.Cause, Message: failure.Error()})
	switch failure.Cause {
	case event.CauseConfig:
		return ExitConfig
	case event.CauseOutOfMemory, event.CauseHostOutOfMemory:
		return ExitMemory
	}
	return ExitFailed
}

func run(ctx context.Context, link *Link, start protocol.Start, environ []string, stderr io.Writer, logger *slog.Logger) error {
	var cfg configs.Config
	if err := json.Unmarshal(start.Config, &cfg); err != nil {
		return &Failure{event.CauseConfig, fmt.Errorf("decode the configuration: %w", err)}
	}
	if err := configs.Validate(cfg); err != nil {
		return &Failure{event.CauseConfig, err}
	}
	tasks, err := task.Open(cfg.Tasks)
	if err != nil {
		return &Failure{event.CauseConfig, err}
	}
	if err := files.MakeFolder(start.Dir, 0o700); err != nil {
		err = fmt.Errorf("node folder: %w", err)
		if diskFull(err) {
			return &Failure{event.CauseDisk, err}
		}
		return &Failure{event.CauseConfig, err}
	}
	tokens, err := tokenizer.Open(start.Tokenizer, start.ModelDir)
	if err != nil {
		return &Failure{event.CauseConfig, err}
	}

	trouble := func(message string) {
		logger.Warn("engine in trouble", "what", message)
		link.Emit(event.Event{Type: event.TypeWarning, Message: message})
	}
	model := &governed{
		start: start, config: cfg, launch: launchEngine(start, environ, stderr, trouble, link, logger), host: link, logger: logger,
		meter: &meter{device: start.Device != "cpu", expected: start.Transient}, limited: mpsclient.Limits(environ),
	}
	l, err := openAttempt(link, model, tokens, logger)
	if err != nil {
		return err
	}
	defer l.close()
	return l.run(ctx, tasks)
}

// loadWarnings returns warnings about the numerical precision of the training and about the prompts.
func loadWarnings(cfg configs.Config, device string, loaded policy.LoadResult, tokens tokenizer.Tokenizer) []string {
	var list []string
	if message := LosesDefault(cfg, tokens); message != "" {
		list = append(list, message)
	}
	if loaded.SelfTestMaxAbsDiff > loaded.SelfTestLimit { // in reduced precision: in full precision the engine fails
		list = append(list, fmt.Sprintf(
			"log-probabilities of the same tokens differ by up to %.3g nats between sampling and training, and rounding in precision %s "+
				"explains up to %.3g. Try: precision tf32",
			loaded.SelfTestMaxAbsDiff, cfg.ResolvedPrecision(device != "cpu"), loaded.SelfTestLimit))
	}
	if cfg.Precision == "fp16" && device != "cpu" {
		list = append(list, halfPrecision)
	}
	return list
}

// obeySignals treats the first SIGTERM as the launcher's stop command, and ends the process on the second one. The
// returned function ends the handling.
func obeySignals(link *Link, gone context.CancelCauseFunc, logger *slog.Logger) func() {
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		defer close(done)
		for end := link.Stop; ; end = func() { gone(errTerminated) } {
			if _, open := <-signals; !open {
				return
			}
			logger.Warn("SIGTERM")
			end()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// classify returns the cause of a node's failure.
func classify(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	var refused *policy.Error
	if errors.As(err, &refused) {
		switch refused.Kind {
		case policy.KindOutOfMemory:
			return &Failure{event.CauseOutOfMemory, err}
		case policy.KindModel:
			return &Failure{event.CauseModel, err}
		case policy.KindSelfTest:
			return &Failure{event.CausePython, err} // another process would compute the same
		case policy.KindBadRequest:
			return &Failure{event.CauseConfig, err}
		case policy.KindDevice: // a driver or an MPS server that is still starting answers so, too
			return &Failure{event.CauseDevice, err}
		case policy.KindCheckpoint:
			if strings.Contains(refused.Message, "No space left") || strings.Contains(refused.Message, "quota exceeded") {
				return &Failure{event.CauseDisk, err}
			}
		}
		return &Failure{event.CauseEngine, err}
	}
	switch {
	case diskFull(err):
		return &Failure{event.CauseDisk, err}
	case errors.Is(err, policy.ErrEngineStalled):
		return &Failure{event.CauseStalled, err}
	case errors.Is(err, policy.ErrEngineGone) && killed(err):
		return &Failure{event.CauseHostOutOfMemory, fmt.Errorf("%w; swarm did not kill it, so the kernel's out-of-memory killer or a kill -9 did", err)}
	case errors.Is(err, policy.ErrEngineGone), errors.Is(err, policy.ErrProtocol):
		return &Failure{event.CauseEngine, err}
	case errors.Is(err, exchange.ErrNoQuorum), errors.Is(err, exchange.ErrClosed), errors.Is(err, errBusSilent):
		return &Failure{event.CauseExchange, err}
	}
	return &Failure{event.CauseUnknown, err}
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// killedByOther is the failure of an engine that got SIGKILL although the kernel's out-of-memory killer did not
// run.
func killedByOther(err error) *Failure {
	return &Failure{event.CauseEngine, fmt.Errorf("%w; another process killed it, not the kernel's out-of-memory killer", err)}
}

// killed reports whether err is from a process that SIGKILL ended.
func killed(err error) bool {
	var exit *policy.ExitError
	return errors.As(err, &exit) && !exit.Unknown && exit.Status.Signaled() && exit.Status.Signal() == syscall.SIGKILL
}
