package stats

import (
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Command is the command line that started an attempt, with secrets masked.
type Command struct {
	Folder      string   `json:"folder"`      // working directory
	Arguments   []string `json:"arguments"`   // without the program
	Environment []string `json:"environment"` // NAME=value of the variables that influence the run
	Line        string   `json:"line"`        // environment, program and arguments, quoted for a shell
}

func newCommand(c store.Command) *Command {
	out := &Command{Folder: c.Folder, Arguments: append([]string{}, c.Arguments...), Environment: append([]string{}, c.Environment...)}
	words := append([]string{"swarm"}, c.Arguments...)
	out.Line = shell.Line(words...)
	for i := len(c.Environment) - 1; i >= 0; i-- {
		out.Line = shell.Assignment(c.Environment[i]) + " " + out.Line
	}
	return out
}
