package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	sh "github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// onlyRunFlag is how swarm resume tells swarm up which run to go on with.
const onlyRunFlag = "only-run"

// resumeFlags are the flags of up that resume's help shows.
var resumeFlags = []string{"rounds", "detach", "output", "dashboard", "price", "yes", "on-complete", "webhook", "wait-for-gpu", "nats", "help"}

func newResumeCommand(g *globals) *cobra.Command {
	up := newUpCommand(g)
	cmd := &cobra.Command{
		Use:   "resume [EXPERIMENT or RUN]",
		Short: "Continue an interrupted run with the command that began it",
		Long: "resume goes on with a run that was stopped, has failed or crashed: by default the newest of these. It takes the command that began\n" +
			"the run, the variables that counted and the folder that it was typed in from the database, so that it works from any folder. Other\n" +
			"flags of swarm up may be added and win. What is secret in the command is in the run's folder, which must still be there.\n\n" +
			"A run that is done prints its summary; --rounds N prolongs it. A run that a sweep began goes on with that sweep: resume says which.",
		Example: `  swarm resume
  swarm resume 4loc4ext-1 --detach
  swarm resume 4loc4ext --rounds 100`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			extra, err := extraWords(cmd.Flags())
			if err != nil {
				return err
			}
			return runResume(cmd.Context(), g, nameIn(args), extra)
		},
	}
	cmd.Flags().AddFlagSet(up.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !slices.Contains(resumeFlags, f.Name) })
	return cmd
}

// extraWords are the flags that were given, as arguments of up. Files and folders are those of the present folder.
func extraWords(f *pflag.FlagSet) (words []string, err error) {
	f.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "home":
			return
		case "fresh":
			err = fail.Usage(errors.New("resume goes on with a run, --fresh begins a new one"), "swarm up --fresh with the run's other flags")
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		kind, _ := pflag.UnquoteUsage(flag)
		for _, v := range values {
			if path, bad := filepath.Abs(v); bad == nil && v != "" && (kind == "file" || kind == "folder") {
				v = path
			}
			words = append(words, "--"+flag.Name+"="+v)
		}
	})
	return words, err
}

func runResume(ctx context.Context, g *globals, name string, extra []string) error {
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if name != "" {
		found, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return err
		}
		if ok {
			return fail.Usage(fmt.Errorf("%s is a job of swarm run, and resume is for runs of swarm up", found.Job), "swarm run with the command of swarm status "+found.Job)
		}
	}
	s, err := toResume(ctx, reader, name)
	if err != nil {
		return err
	}
	run := s.Run
	switch {
	case run.Imported():
		return fail.Usage(fmt.Errorf("run %s was imported: only the home that made it can go on with it", run.Run), "swarm status "+run.Run)
	case run.State == store.RunRunning && lifecycle.Alive(s, event.Now()):
		return fail.Usage(fmt.Errorf("run %s is running already", run.Run), "swarm attach "+run.Run)
	case run.State == store.RunDone && len(extra) == 0:
		fmt.Fprintf(g.stdout, "%s has done all its %s. To prolong it: %s resume %s --rounds %d\n", run.Run, units.Plural(run.Rounds, "round"),
			g.invocation(), run.Run, 2*run.Rounds)
		return watching(g, reader, run).summarise()
	}
	dir := g.home.Run(run.Run)
	if _, err := os.Stat(dir); err != nil {
		return fail.Hint(fmt.Errorf("run %s can't go on: its folder is gone: %w", run.Run, err), "swarm up --fresh for a new run of "+run.Experiment)
	}
	c, secrets := s.Command, readSecrets(dir)
	if c == nil {
		if c, err = derivedCommand(run, dir); err != nil {
			return err
		}
	}
	if commandName(c.Arguments) == "sweep" {
		return fail.Usage(fmt.Errorf("run %s is part of a sweep, which goes on with all of its runs", run.Run), typedLine(*c))
	}
	words, err := resumedWords(g, run, *c, secrets, extra)
	if err != nil {
		return err
	}
	if err := reader.Close(); err != nil {
		return err
	}
	return g.become(*c, words, environWith(os.Environ(), *c, secrets))
}

// toResume is the run of that name, or the newest one that was interrupted.
func toResume(ctx context.Context, reader *store.Reader, name string) (s store.Snapshot, err error) {
	if name != "" {
		s, err = reader.Snapshot(ctx, name)
		return s, lifecycle.NotFound(err, name)
	}
	runs, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return s, err
	}
	slices.SortStableFunc(runs, func(a, b store.Totals) int {
		return int(min(1, max(-1, b.Resumed-a.Resumed))) // newest first
	})
	for _, r := range runs {
		if r.State == store.RunDone || r.Imported() {
			continue
		}
		if s, err = reader.Snapshot(ctx, r.Run.Run); err != nil {
			return s, err
		}
		if r.State != store.RunRunning || !lifecycle.Alive(s, event.Now()) {
			return s, nil
		}
	}
	return s, fail.Usage(errors.New("no run was interrupted"), "swarm status for those that go on, or swarm up")
}

// resumedWords are the arguments of the command that goes on with a run: those that began it, and extra ones, which win.
func resumedWords(g *globals, run store.Run, c store.Command, secrets commandSecrets, extra []string) ([]string, error) {
	flags := commandFlags(c.Arguments)
	words := typedWords(c.Arguments, flags)
	for i := range words {
		if !strings.Contains(words[i].text, masked) {
			continue
		}
		if secret, ok := secrets.Arguments[i]; ok {
			words[i].text = secret
			continue
		}
		if given(extra, words[i].flag) || words[i].flag == "" && os.Getenv(resolve.InvitationVariable) != "" {
			continue
		}
		what := "the invitation"
		try := "swarm join INVITATION, with the line of swarm up --listen"
		if words[i].flag != "" {
			what, try = "--"+words[i].flag, fmt.Sprintf("swarm resume %s --%s VALUE", run.Run, words[i].flag)
		}
		return nil, fail.Usage(fmt.Errorf("run %s was begun with %s, whose value is no longer in %s", run.Run, what, secretsPath(g.home.Run(run.Run))), try)
	}
	again := []string{"fresh", "output", "home", onlyRunFlag}
	for _, w := range typedWords(extra, flags) {
		if f := flags.Lookup(w.flag); f != nil {
			if _, list := f.Value.(pflag.SliceValue); !list {
				again = append(again, w.flag) // the new value wins
			}
		}
	}
	for i, w := range words {
		if w.text == masked && w.flag == "" || strings.Contains(w.text, masked) && secrets.Arguments[i] == "" {
			again = append(again, w.flag)
		}
	}
	kept := withoutFlags(words, again...)
	kept = slices.DeleteFunc(kept, func(w typedWord) bool { return w.flag == "" && w.text == masked })
	added := append([]string{"--home=" + string(g.home)}, extra...)
	if commandName(c.Arguments) == "up" {
		added = append(added, "--"+onlyRunFlag+"="+run.Run)
	}
	texts := textsOf(kept)
	if end := slices.Index(texts, "--"); end >= 0 {
		return slices.Insert(texts, end, added...), nil
	}
	return append(texts, added...), nil
}

// given tells whether arguments give a flag.
func given(args []string, flag string) bool {
	return flag != "" && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--"+flag+"=") })
}

// typedLine is a command as its user would type it from the present folder.
func typedLine(c store.Command) string {
	line := sh.Line(append([]string{"swarm"}, c.Arguments...)...)
	for _, entry := range slices.Backward(c.Environment) {
		line = sh.Assignment(entry) + " " + line
	}
	if here, err := os.Getwd(); err == nil && here != c.Folder && c.Folder != "" {
		line = "cd " + sh.Quote(c.Folder) + " && " + line
	}
	return line
}

// become replaces this process by the program with other arguments, in the folder that a command was typed in. It returns only where that fails.
func (g *globals) become(c store.Command, args, environ []string) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	if c.Folder != "" {
		if err := os.Chdir(c.Folder); err != nil {
			g.logger.Warn("the folder in which the run was begun is gone: relative paths count from here", "folder", c.Folder)
		} else {
			environ = append(slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, "PWD=") }), "PWD="+c.Folder)
		}
	}
	if err := syscall.Exec(exe, append([]string{os.Args[0]}, args...), environ); err != nil {
		return fmt.Errorf("start swarm up: %w", err)
	}
	return nil
}
