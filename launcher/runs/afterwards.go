package runs

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Afterwards is the text after the status of a run that ended before its rounds were done: when and why it crashed,
// and the next commands. It is empty for other runs.
type Afterwards struct {
	heard    string
	commands []string
}

// filesRemoved begins the advice for a run after rm --files. A command that begins a new run follows.
const filesRemoved = "It cannot continue, because its files were removed. For a new run: "

// After returns the text for a run in this home. advice provides the commands.
func After(ctx context.Context, home layout.Home, reader *store.Reader, x stats.Status, advice commandline.Advice) (out Afterwards, err error) {
	if x.State == store.RunRunning || x.State == store.RunDone {
		return out, nil
	}
	snapshot, err := reader.Snapshot(ctx, x.Run)
	if err != nil || snapshot.Run.Imported() {
		return out, err
	}
	if x.State == stats.StateCrashed {
		out.heard = fmt.Sprintf("Last seen at %s, %s.%s", time.Unix(int64(x.LastSeen), 0).Format(time.DateTime), units.Ago(x.LastSeen, event.Now()),
			restarted(snapshot.Run))
	}
	if home.LacksRun(x.Run) {
		out.commands = []string{filesRemoved + advice.Program + " up --fresh"}
		return out, nil
	}
	out.commands = []string{"Continue with: " + advice.GoesOn(x.Run, x.Command)}
	if x.State != store.RunStopped {
		out.commands = append(out.commands, "Its logs: "+advice.Program+" logs "+x.Run)
	}
	return out, nil
}

// Print prints the text below a status.
func (a Afterwards) Print(p *table.Page) {
	if a.commands == nil {
		return
	}
	p.Println()
	if a.heard != "" {
		p.Println(a.heard)
	}
	for _, c := range a.commands {
		p.Command(c)
	}
}

// restarted returns a note if the run's host has been restarted since, as far as that is known, else "".
func restarted(run store.Run) string {
	self, err := supervise.Identify(os.Getpid())
	if err != nil || lifecycle.Elsewhere(run) || run.BootID == "" || run.BootID == self.Boot {
		return ""
	}
	return " The host has restarted since then."
}
