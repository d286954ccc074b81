package commandline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Again is a command that continues a run.
type Again struct {
	Arguments []string // without the program's name
	Environ   []string
	folder    string // where the run was begun; empty: unknown
	grammar   Grammar
}

// ToResume returns the run with that name, or the newest interrupted run if name is empty. It rejects a run that is
// running or imported, but returns a run that is done.
func ToResume(ctx context.Context, reader *store.Reader, name string) (store.Snapshot, error) {
	s, err := toResume(ctx, reader, name)
	switch run := s.Run; {
	case err != nil:
		return s, err
	case run.Imported():
		return s, fail.Usage(fmt.Errorf("run %s was imported: only its original home can continue it", run.Run), "swarm status "+run.Run)
	case run.State == store.RunRunning && lifecycle.Alive(s, event.Now()):
		return s, fail.Usage(fmt.Errorf("run %s is running already", run.Run), "swarm attach "+run.Run)
	}
	return s, nil
}

// Resume returns the command that continues a run: the command that began it, with extra flags, which take
// precedence. For a run of an older swarm, which recorded no command, Resume derives it from the configuration.
func Resume(home layout.Home, s store.Snapshot, extra []string, grammar Grammar, sources Sources) (Again, error) {
	run, dir := s.Run, home.Run(s.Run.Run)
	if _, err := os.Stat(dir); err != nil {
		return Again{}, fmt.Errorf("run %s cannot continue: %w", run.Run, home.RunError(run.Run, err))
	}
	c, secrets := s.Command, readSecrets(dir)
	if c == nil {
		var err error
		if c, err = derivedCommand(run, dir, sources); err != nil {
			return Again{}, err
		}
	}
	if grammar.sweeps(c.Arguments) {
		return Again{}, fail.Usage(fmt.Errorf("run %s is part of a sweep, which continues all of its runs", run.Run), typedLine(*c))
	}
	words, err := resumedWords(home, grammar, run, *c, secrets, extra)
	return Again{Arguments: words, Environ: environWith(os.Environ(), *c, secrets), folder: c.Folder, grammar: grammar}, err
}

// Become replaces this process with the command that continues the run, in the folder where the user typed it. It
// returns only on failure.
func (a Again) Become(logger *slog.Logger) error {
	environ := a.Environ
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	args, secrets, err := Mask(a.Arguments, a.grammar)
	if err != nil {
		return err
	}
	if secrets != "" {
		environ = append(environ, secrets)
	}
	if a.folder != "" {
		if err := os.Chdir(a.folder); err != nil {
			logger.Warn("the run's working folder is missing: relative paths start from the current folder", "folder", a.folder)
		} else {
			environ = append(slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, "PWD=") }), "PWD="+a.folder)
		}
	}
	if err := syscall.Exec(exe, append([]string{os.Args[0]}, args...), environ); err != nil {
		return fmt.Errorf("start swarm up: %w", err)
	}
	return nil
}

// toResume returns the run with that name, or the newest interrupted run if name is empty.
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
	return s, fail.Usage(errors.New("no run was interrupted"), "swarm status for running runs, or swarm up")
}

// resumedWords returns the arguments of the command that continues a run: those that began it, and the extra ones,
// which take precedence.
func resumedWords(home layout.Home, grammar Grammar, run store.Run, c store.Command, secrets Secrets, extra []string) ([]string, error) {
	flags := grammar.Flags(c.Arguments)
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
		try := "swarm join INVITATION, with the command that swarm up --listen printed"
		if words[i].flag != "" {
			what, try = "--"+words[i].flag, fmt.Sprintf("swarm resume %s --%s VALUE", run.Run, words[i].flag)
		}
		return nil, fail.Usage(fmt.Errorf("run %s was started with %s, whose value is no longer in %s", run.Run, what, secretsPath(home.Run(run.Run))), try)
	}
	again := []string{"fresh", "output", "home", OnlyRunFlag}
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
	added := append([]string{"--home=" + string(home)}, extra...)
	if grammar.Name(c.Arguments) == "up" {
		added = append(added, "--"+OnlyRunFlag+"="+run.Run)
	}
	texts := textsOf(kept)
	if end := slices.Index(texts, "--"); end >= 0 {
		return slices.Insert(texts, end, added...), nil
	}
	return append(texts, added...), nil
}

// given reports whether arguments contain a flag.
func given(args []string, flag string) bool {
	return flag != "" && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--"+flag+"=") })
}

// typedLine returns a command as its user would type it from the current folder.
func typedLine(c store.Command) string {
	line := shell.Line(append([]string{"swarm"}, c.Arguments...)...)
	for _, entry := range slices.Backward(c.Environment) {
		line = shell.Assignment(entry) + " " + line
	}
	if here, err := os.Getwd(); err == nil && here != c.Folder && c.Folder != "" {
		line = "cd " + shell.Quote(c.Folder) + " && " + line
	}
	return line
}
