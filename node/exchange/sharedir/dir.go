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

// Options identify a Dir's run and node, and configure it.
type Options struct {
	Dir    string // the experiment's folder (see Folder), after Announce
	Run    string
	Node   string
	Worker string        // worker that runs the node; empty: the coordinator's host
	State  string        // local folder that keeps the order of arrivals; empty: in memory only
	Compat bool          // also write rl-swarm's files
	Poll   time.Duration // time between looks at the folder, longer in a long wait; 0: a second
	Logger *slog.Logger  // may be nil
}

const (
	defaultPoll = time.Second
	fastPoll    = 20 * time.Millisecond // for a local file system, where a look is cheap
	longPolls   = 5                     // a long wait looks every longPolls*Poll
)

// Dir is a node's Exchange through a shared folder.
type Dir struct {
	o         Options
	process   string
	base      *tree // <experiment>/swarm
	report    *reporter
	local     bool
	processes *processes
	rlswarm   *rlSwarm

	calls exchange.Calls

	publishing sync.Mutex // one Publish at a time checks for an existing batch
	arrivals   *arrivals
	scanner    scanner
	recents    recents
}

var _ exchange.Exchange = (*Dir)(nil)

// Open joins the folder, which must exist. It records the existing files so that Recent can tell which are new.
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

// begin1st checks that the folder can be read and written, and records its content.
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
		return fmt.Errorf("run %.140q is not a valid name", o.Run)
	case o.Node == "" || len(o.Node) > 128:
		return fmt.Errorf("node %.140q is not a valid name", o.Node)
	}
	info, err := os.Stat(filepath.Join(o.Dir, base))
	switch {
	case err != nil:
		return explain(o.Dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder. Try: another --shared DIR", filepath.Join(o.Dir, base))
	}
	return nil
}

// Close cancels the calls in progress with ErrClosed and waits for them. Calling it again is safe.
func (d *Dir) Close() error {
	d.calls.Close()
	return d.arrivals.close()
}

// pause returns the wait before the next look. waited is the time since the first look.
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

// Magic numbers of local file systems (statfs(2)).
var localSystems = map[int64]bool{
	0xef53: true, 0x58465342: true, 0x9123683e: true, 0x01021994: true, 0x794c7630: true, 0x2fc12fc1: true, 0xf2f52010: true,
} // ext, xfs, btrfs, tmpfs, overlay, zfs, f2fs

// isLocal reports whether a folder is on a local file system.
func isLocal(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && localSystems[int64(s.Type)&0xffffffff]
}
