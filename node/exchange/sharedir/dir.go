package sharedir

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Options say which node of which run a Dir is.
type Options struct {
	Dir    string // the experiment's folder, of Folder; Announce made it what it is
	Run    string
	Node   string
	Worker string        // whose node it is; empty: the coordinator's own
	State  string        // local folder that remembers what arrived when; empty: forgotten with the process
	Compat bool          // write rl-swarm's files, too
	Poll   time.Duration // how often the folder is looked at in a wait, more rarely in a long one; 0: a second
	Logger *slog.Logger  // may be nil
}

const (
	defaultPoll = time.Second
	fastPoll    = 20 * time.Millisecond // on a local file system, where a look costs nothing
	longPolls   = 5                     // a long wait looks every so many Polls
)

// Dir is a node's Exchange through a folder.
type Dir struct {
	o         Options
	process   string
	base      *tree // <experiment>/swarm
	report    *reporter
	local     bool
	processes *processes
	rlswarm   *rlSwarm

	calls exchange.Calls

	publishing sync.Mutex // one Publish looks for an earlier one at a time
	arrivals   *arrivals
	scanner    scanner
	recents    recents
}

var _ exchange.Exchange = (*Dir)(nil)

// Open joins the folder, which must be there. It remembers what is in it, so that Recent can tell what is new.
func Open(o Options) (*Dir, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open the shared folder: %w", err)
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	d := &Dir{
		o: o, process: newProcessID(), base: baseOf(o.Dir), local: isLocal(o.Dir),
		report: &reporter{logger: logger.With("run", o.Run, "node", o.Node)},
	}
	d.rlswarm = newRLSwarm(o.Dir, d.report)
	d.processes = newProcesses(d.base, o, d.process)
	d.scanner = scanner{dir: d}
	if err := d.begin1st(); err != nil {
		return nil, explain(o.Dir, err)
	}
	return d, nil
}

// begin1st makes sure that the folder can be read and written, and looks at what is there.
func (d *Dir) begin1st() error {
	if err := d.processes.begin(); err != nil {
		return err
	}
	var err error
	if d.arrivals, err = openArrivals(d.o.State); err != nil {
		return err
	}
	if d.o.Compat {
		if err := d.rlswarm.register(d.o.Node, d.o.Worker == ""); err != nil {
			return err
		}
	}
	return d.scanner.join()
}

func (o Options) check() error {
	switch {
	case o.Run == "" || len(o.Run) > 128:
		return fmt.Errorf("run %.140q is no name", o.Run)
	case o.Node == "" || len(o.Node) > 128:
		return fmt.Errorf("node %.140q is no name", o.Node)
	}
	info, err := os.Stat(filepath.Join(o.Dir, base))
	switch {
	case err != nil:
		return explain(o.Dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s is no folder. Try: another --shared DIR", filepath.Join(o.Dir, base))
	}
	return nil
}

// Close ends calls in progress with ErrClosed and waits for them. It can be called again.
func (d *Dir) Close() error {
	d.calls.Close()
	return d.arrivals.close()
}

// pause is how long to wait before the next look, waited after the first one.
func (d *Dir) pause(waited time.Duration) time.Duration {
	if d.local {
		return min(max(fastPoll, waited/4), d.o.Poll)
	}
	return min(max(d.o.Poll, waited/8), longPolls*d.o.Poll)
}

// sleep waits, or returns the cause of ctx's end.
func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

// Magic numbers of file systems on a disk of this machine (statfs(2)).
var localSystems = map[int64]bool{
	0xef53: true, 0x58465342: true, 0x9123683e: true, 0x01021994: true, 0x794c7630: true, 0x2fc12fc1: true, 0xf2f52010: true,
} // ext, xfs, btrfs, tmpfs, overlay, zfs, f2fs

// isLocal tells whether a look at a folder costs no network.
func isLocal(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && localSystems[int64(s.Type)&0xffffffff]
}
