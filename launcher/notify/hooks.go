// Package notify reports the end of a run or a sweep to a user's command and to a webhook, after everything is
// recorded. It must not import packages that run or sweep.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/shell"
)

// Hooks are the user's notifications for the end of a run or a sweep.
type Hooks struct {
	Command string // --on-complete, for /bin/sh
	Webhook string // --webhook, a URL

	CommandFile, WebhookFile string // files with the command and the URL that only their owner may read; empty: none
}

// Process provides the streams and settings of the process that is ending.
type Process struct {
	Stderr io.Writer
	Logger *slog.Logger
	Logged bool   // Stderr is the run's log
	Agent  string // User-Agent for the webhook, such as swarm/1.2
}

// Check reads the files and rejects settings that could only fail at the end of the run.
func (c *Hooks) Check() error {
	for _, x := range []struct {
		flag, file string
		into       *string
	}{{"--on-complete", c.CommandFile, &c.Command}, {"--webhook", c.WebhookFile, &c.Webhook}} {
		if x.file == "" {
			continue
		}
		if *x.into != "" {
			return fail.Usage(fmt.Errorf("%s and %s-file exclude each other", x.flag, x.flag), "one of them")
		}
		text, err := files.ReadSecret(x.file, configs.MaxDocument)
		if errors.Is(err, files.ErrPublic) {
			return fail.Usage(fmt.Errorf("other users can read the %s-file %s", x.flag, x.file), "chmod 600 "+shell.Quote(x.file))
		}
		if err != nil {
			return fail.Usage(fmt.Errorf("%s-file: %w", x.flag, err), "a file of mode 0600 with the value of "+x.flag+"")
		}
		if *x.into = strings.TrimSpace(string(text)); *x.into == "" {
			return fail.Usage(fmt.Errorf("%s-file %s is empty", x.flag, x.file), "a file of mode 0600 with the value of "+x.flag+"")
		}
	}
	if strings.ContainsRune(c.Command, 0) {
		return &configs.Error{Key: "on-complete", Value: c.Command, Allowed: "a command for /bin/sh", Source: "--on-complete"}
	}
	if c.Webhook == "" {
		return nil
	}
	_, err := parseWebhook(c.Webhook)
	return err
}

// Ending describes for the hooks how a run, or a sweep, ended.
type Ending struct {
	Run        string // empty for a sweep
	Experiment string // for a sweep: all of them, separated by blanks
	State      string // done, lost, failed, stopped
	ExitCode   int
	Summary    any    // a JSON document
	Folder     string // folder for summary.json
	Log        string // file that gets a copy of the command's output; empty: none
}

// bySignal reports whether a signal stopped the run.
func (e Ending) bySignal() bool { return e.ExitCode > fail.ExitSignal }

// Time limits at the end of a run. A spot VM ends about 25 s after SIGTERM.
const (
	onCompleteLimit = 5 * time.Minute
	onCompleteGrace = 10 * time.Second // between SIGTERM and SIGKILL
	stoppedLimit    = 3 * time.Second  // for the webhook after a stop by signal
)

// dueName is a file in a run's folder. It exists from the start of an attempt until the hooks of its end have run.
const dueName = "hooks-due"

// MarkDue records in a run's folder that the hooks are to run at the end of an attempt. Without hooks, it removes the
// record of an earlier attempt. Finish removes the record.
func (c *Hooks) MarkDue(folder string) error {
	if c.Webhook == "" && c.Command == "" {
		return clearDue(folder)
	}
	return files.Write(filepath.Join(folder, dueName), nil)
}

// Due reports whether the hooks of a run that has ended have not run, because the host died before.
func Due(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, dueName))
	return err == nil
}

func clearDue(folder string) error {
	err := os.Remove(filepath.Join(folder, dueName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, files.SyncFolder(folder))
}

// Finish calls the webhook, then runs the command unless a signal stopped the run. The webhook is first because the
// command may shut down the machine. So call Finish after everything is recorded and closed. A failure is only a
// warning: the run's exit code stays the same. A signal ends the webhook call or the command.
func (c *Hooks) Finish(ctx context.Context, p Process, e Ending) {
	if c.Webhook == "" && (c.Command == "" || e.bySignal()) {
		return
	}
	ctx, interrupts := interrupt.Notify(ctx, p.Stderr, "Skipping --webhook and --on-complete.")
	defer interrupts.Close()
	document, err := json.MarshalIndent(e.Summary, "", "  ")
	if err != nil {
		p.Logger.Warn("the summary could not be sent", "error", err)
		return
	}
	if c.Webhook != "" {
		c.tell(ctx, p, e, document)
	}
	var stopped *interrupt.Error
	if errors.As(context.Cause(ctx), &stopped) && stopped.Signal != syscall.SIGINT {
		return // the host may be shutting down: the hooks stay due
	}
	// Before the command, which may shut down the machine: the next boot must not run it again.
	if err := clearDue(e.Folder); err != nil {
		p.Logger.Warn("the next start of this command may run --on-complete again", "error", err)
	}
	if c.Command != "" && !e.bySignal() && ctx.Err() == nil {
		c.runCommand(ctx, p, e, document)
	}
}

// tell posts the summary to the webhook.
func (c *Hooks) tell(ctx context.Context, p Process, e Ending, document []byte) {
	hook, err := parseWebhook(c.Webhook)
	if err != nil { // Check rejects these
		p.Logger.Warn("webhook", "error", err)
		return
	}
	hook.agent = p.Agent
	if e.bySignal() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stoppedLimit)
		defer cancel()
		hook.tries = 1
	}
	if err := hook.post(ctx, document); err != nil {
		p.Logger.Warn("the webhook could not be reached", "host", hook.host(), "error", err)
	}
}

// runCommand runs --on-complete.
func (c *Hooks) runCommand(ctx context.Context, p Process, e Ending, document []byte) {
	path := filepath.Join(e.Folder, "summary.json")
	err := os.MkdirAll(e.Folder, 0o700)
	if err == nil {
		err = files.Write(path, append(document, '\n'))
	}
	if err != nil {
		p.Logger.Warn("the summary for --on-complete was not written", "error", err)
		path = "" // run the command without it: the command may shut down a machine that costs money
	}
	out, closeOut := e.output(p)
	defer closeOut()
	hook := shellCommand{text: c.Command, environ: append(os.Environ(), e.environ(path)...), limit: onCompleteLimit, grace: onCompleteGrace}
	p.Logger.Info("running --on-complete") // without the text, which may hold secrets
	if err := hook.run(ctx, out); err != nil {
		p.Logger.Warn("--on-complete failed", "error", err)
	}
}

func (e Ending) environ(summary string) []string {
	return []string{
		configs.HookRun + "=" + e.Run, configs.HookExperiment + "=" + e.Experiment, configs.HookState + "=" + e.State,
		configs.HookExitCode + "=" + strconv.Itoa(e.ExitCode), configs.HookSummary + "=" + summary,
	}
}

// output returns stderr, and also the log unless that is the same file.
func (e Ending) output(p Process) (io.Writer, func()) {
	stderr := p.Stderr
	if e.Log == "" || p.Logged { // in the background stderr is the log
		return stderr, func() {}
	}
	log, err := os.OpenFile(e.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return stderr, func() {}
	}
	if screen.Same(stderr, log) {
		log.Close()
		return stderr, func() {}
	}
	return io.MultiWriter(stderr, log), func() { log.Close() }
}
