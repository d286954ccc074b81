package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/interrupt"
)

// completion is what the user wants done once everything is over: --on-complete and --webhook.
type completion struct {
	command string
	webhook string
}

func (c *completion) add(f *pflag.FlagSet) {
	f.StringVar(&c.command, "on-complete", "", "`command` for /bin/sh once all is over, such as 'sudo shutdown -h now'; not after a stop by signal")
	f.StringVar(&c.webhook, "webhook", "", "`URL` that gets the summary as JSON by POST once all is over, also after a stop by signal")
}

// check refuses what could only fail at the end of the run.
func (c *completion) check() error {
	if strings.ContainsRune(c.command, 0) {
		return &configs.Error{Key: "on-complete", Value: c.command, Allowed: "a command for /bin/sh", Source: "--on-complete"}
	}
	if c.webhook == "" {
		return nil
	}
	_, err := parseWebhook(c.webhook)
	return err
}

// ending is what completion tells: how a run, or a sweep, ended.
type ending struct {
	Run        string // empty of a sweep
	Experiment string // of a sweep: all, blanks between
	State      string // done, lost, failed, stopped
	ExitCode   int
	Summary    any    // a JSON document
	Folder     string // summary.json is written here
	Log        string // file that gets a copy of what the command writes; empty: none
}

// bySignal tells whether a person stopped it.
func (e ending) bySignal() bool { return e.ExitCode > fail.ExitSignal }

// The limits of what happens at the end. A spot VM gives 25 s or so from SIGTERM to the end of everything.
const (
	onCompleteLimit = 5 * time.Minute
	onCompleteGrace = 10 * time.Second // between SIGTERM and SIGKILL
	stoppedLimit    = 3 * time.Second  // of the webhook after a stop by signal
)

// finish tells the webhook, then runs the command, unless a person stopped the run. It is called when everything is recorded and closed:
// the command may shut the machine down. What fails is a warning: the run's exit code stays. A signal ends what is under way.
func (c *completion) finish(ctx context.Context, g *globals, e ending) {
	if c.webhook == "" && (c.command == "" || e.bySignal()) {
		return
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Not waiting for what --webhook and --on-complete ask for.")
	defer interrupts.Close()
	document, err := json.MarshalIndent(e.Summary, "", "  ")
	if err != nil {
		g.logger.Warn("the summary can't be told", "error", err)
		return
	}
	if c.webhook != "" {
		c.tell(ctx, g, e, document)
	}
	if c.command != "" && !e.bySignal() && ctx.Err() == nil {
		c.runCommand(ctx, g, e, document)
	}
}

// tell posts the summary.
func (c *completion) tell(ctx context.Context, g *globals, e ending, document []byte) {
	hook, err := parseWebhook(c.webhook)
	if err != nil { // check refuses it
		g.logger.Warn("webhook", "error", err)
		return
	}
	if e.bySignal() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stoppedLimit)
		defer cancel()
		hook.tries = 1
	}
	if err := hook.post(ctx, document); err != nil {
		g.logger.Warn("the webhook was not told", "host", hook.host(), "error", err)
	}
}

// runCommand runs --on-complete.
func (c *completion) runCommand(ctx context.Context, g *globals, e ending, document []byte) {
	path := filepath.Join(e.Folder, "summary.json")
	err := os.MkdirAll(e.Folder, 0o755)
	if err == nil {
		err = files.Write(path, append(document, '\n'))
	}
	if err != nil {
		g.logger.Warn("the summary for --on-complete was not written", "error", err)
		path = "" // the command counts: it may be what stops the machine from costing
	}
	out, closeOut := e.output(g)
	defer closeOut()
	hook := shellCommand{text: c.command, environ: append(os.Environ(), e.environ(path)...), limit: onCompleteLimit, grace: onCompleteGrace}
	g.logger.Info("running --on-complete") // without its text, which may hold secrets
	if err := hook.run(ctx, out); err != nil {
		g.logger.Warn("--on-complete failed", "error", err)
	}
}

func (e ending) environ(summary string) []string {
	return []string{
		configs.HookRun + "=" + e.Run, configs.HookExperiment + "=" + e.Experiment, configs.HookState + "=" + e.State,
		configs.HookExitCode + "=" + strconv.Itoa(e.ExitCode), configs.HookSummary + "=" + summary,
	}
}

// output is stderr, and the log beside it where that is another file.
func (e ending) output(g *globals) (io.Writer, func()) {
	stderr := g.stderr
	if e.Log == "" || g.console != nil { // in the background stderr is the log
		return stderr, func() {}
	}
	log, err := os.OpenFile(e.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return stderr, func() {}
	}
	if writesTo(stderr, log) {
		log.Close()
		return stderr, func() {}
	}
	return io.MultiWriter(stderr, log), func() { log.Close() }
}

// writesTo tells whether a writer is that very file.
func writesTo(w io.Writer, file *os.File) bool {
	other, ok := w.(*os.File)
	if !ok {
		return false
	}
	its, err := other.Stat()
	info, err2 := file.Stat()
	return err == nil && err2 == nil && os.SameFile(its, info)
}
