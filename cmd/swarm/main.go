// Command swarm runs a swarm of small language models trained by SAPO on one shared GPU. This package only turns
// flags into calls of launcher, node and metrics, and errors into exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/plainlog"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/policy"
)

const exitCodesHelp = `
Exit codes: 0 done, 1 failed, 2 invalid usage or configuration, 3 not enough memory or GPU for what was asked,
4 some nodes gave up, 130/143 stopped by a signal after an orderly checkpoint.`

// version is set by the linker.
var version = "dev"

func main() {
	args := commandline.Unmask(os.Args[1:])
	commandline.Hide(os.Args[1:], grammar())
	os.Exit(run(args, os.Stdin, os.Stdout, os.Stderr))
}

// globals holds what all commands share.
type globals struct {
	home    layout.Home
	python  policy.Interpreter
	verbose bool
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	logger  *slog.Logger
	console *background.Console // of a background process; nil in the foreground
	args    []string            // as typed, without the program's name
	began   *store.Command      // what the user typed, if a sweep started this process; else nil

	environmentTold bool // tellEnvironment has been called

	helpAll      bool   // --help shows every flag
	databaseFile string // --database: openReader reads it in place of the home's database; empty: not given
}

func (g *globals) logLevel() slog.Level {
	if g.verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// run runs the program and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	g := &globals{stdin: stdin, stdout: stdout, stderr: stderr, args: args, began: commandline.TakeBegan()}
	defer g.python.Close()
	args, g.helpAll = usage.TakeHelpAll(args)
	root := newRootCommand(g)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// A closed stdout (swarm … | head) must not end a run.
	signal.Ignore(syscall.SIGPIPE)
	err := root.ExecuteContext(context.Background())
	defer func() { _ = screen.Flush(g.stderr) }()
	if late := screen.Flush(g.stdout); err == nil && !errors.Is(late, syscall.EPIPE) {
		err = late
	}
	if err == nil {
		return fail.ExitDone
	}
	if errors.Is(err, syscall.EPIPE) {
		return fail.ExitFailed // stdout's reader has closed it
	}
	report(g.stderr, err)
	return exitCode(err)
}

// report writes one Error: line, then the lines of a fail.ListError, then one Try: line if there is a remedy.
// Packages append a remedy to their error's text, after ". Try: ".
func report(stderr io.Writer, err error) {
	var quiet *fail.ExitError
	if errors.As(err, &quiet) {
		return
	}
	text, try := err.Error(), ""
	var list *fail.ListError
	var lines []string
	if errors.As(err, &list) {
		text, lines = list.Parted(text)
	} else {
		text, try = fail.SplitRemedy(text)
	}
	if try == "" {
		try = remedy(err)
	}
	// it may quote untrusted text
	shown := func(text string) string { return charset.Fit(charset.Shown(fail.OneLine(text)), os.Environ()) }
	fmt.Fprintf(stderr, "Error: %s\n", shown(text))
	for _, line := range lines {
		fmt.Fprintf(stderr, "  %s\n", shown(line))
	}
	if try != "" {
		fmt.Fprintf(stderr, "Try: %s\n", shown(try))
	}
}

func exitCode(err error) int {
	var silent *fail.ExitError
	var usage *fail.UsageError
	var config *configs.Error
	var lost *launch.LostError
	switch {
	case errors.As(err, &silent):
		return silent.Code
	case errors.As(err, &usage), errors.As(err, &config):
		return fail.ExitUsage
	case errors.Is(err, fit.ErrDoesNotFit), errors.Is(err, mps.ErrUnavailable):
		return fail.ExitNoRoom
	case errors.As(err, &lost) && lost.Remaining == 0 && lost.OutOfMemory():
		return fail.ExitNoRoom
	case errors.As(err, &lost) && lost.Remaining > 0:
		return fail.ExitLost
	}
	return fail.ExitFailed
}

func remedy(err error) string {
	var mendable interface{ Remedy() string } // a store.Error
	if errors.As(err, &mendable) {
		return mendable.Remedy()
	}
	if try := fail.Remedy(err); try != "" {
		return try
	}
	if errors.Is(err, policy.ErrNoPython) {
		return "make setup, or apt-get install python3-torch libopenblas0, or --python /path/to/a/python3 that has torch; swarm doctor shows details"
	}
	return ""
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:           "swarm",
		Short:         "Train a swarm of small language models with SAPO on one shared GPU",
		Long:          "swarm finds the GPU, decides how many nodes fit, starts and supervises them, and records every round.\n" + exitCodesHelp,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.OnlySubcommands,
		RunE:          func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := refuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			g.logger = plainlog.New(g.stderr, g.logLevel())
			// Engines run in another folder, so make the path absolute.
			var dir string
			dir, err = filepath.Abs(string(g.home))
			g.home = layout.Home(dir)
			g.python.Home = dir
			g.python.Hosting = slices.Contains(startEngines, cmd.CommandPath())
			return err
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fail.Usage(usage.FlagError(cmd, err), cmd.CommandPath()+" --help")
	})
	root.PersistentFlags().StringVar((*string)(&g.home), "home", layout.Default(os.Getenv), "where runs and the database live (SWARM_HOME)")
	root.PersistentFlags().StringVar(&g.python.Path, "python", "", "Python interpreter with torch (SWARM_PYTHON)")
	root.PersistentFlags().BoolVarP(&g.verbose, "verbose", "v", false, "log more to stderr")
	root.AddCommand(
		newUpCommand(g),
		newResumeCommand(g),
		newJoinCommand(g),
		newWorkersCommand(g),
		newSweepCommand(g),
		newPlanCommand(g),
		newTuneCommand(g),
		newRunCommand(g),
		newProfileCommand(g),
		newStatusCommand(g),
		newLsCommand(g),
		newRmCommand(g),
		newPruneCommand(g),
		newAttachCommand(g),
		newLogsCommand(g),
		newDownCommand(g),
		newGenerateCommand(g),
		newServiceCommand(g),
		newCompareCommand(g),
		newCurveCommand(g),
		newEvalCommand(g),
		newReportCommand(g),
		newDashboardCommand(g),
		newExportCommand(g),
		newImportCommand(g),
		newVerifyCommand(g),
		newTaskCommand(g),
		newDoctorCommand(g),
		newGPUCommand(g),
		newPretrainCommand(g),
		newModelCommand(g),
		newNodeCommand(g),
		newManCommand(),
	)
	for _, c := range root.Commands() {
		completeNames(g, c)
		completeValues(c)
		if c.Long == "" {
			c.Long = c.Short + "."
		}
		c.Long += "\n" + exitCodesHelp
	}
	root.InitDefaultCompletionCmd()
	completeDeeper(g, root)
	groupCommands(root)
	usage.RefuseUnknown(root)
	usage.FitHelp(g.stdout, root, flagGroups, g.helpAll)
	return root
}

// startEngines lists the commands that start engines.
var startEngines = []string{
	"swarm up", "swarm resume", "swarm join", "swarm sweep", "swarm tune", "swarm verify", "swarm eval", "swarm profile", "swarm pretrain", "swarm doctor",
	"swarm model prompt", "swarm model save",
}
