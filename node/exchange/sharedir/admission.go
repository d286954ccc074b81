package sharedir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// ServeOptions configure ServeAdmission.
type ServeOptions struct {
	Poll    time.Duration // time between looks at the folder; 0: two seconds, or five if the folder is not on a local disk
	Silence time.Duration // a worker without a new beat file for this long counts as silent; 0: SilentAfter
	Logger  *slog.Logger  // may be nil
}

// rosterEvery is the time after which an unchanged roster is written again, to show that the coordinator is alive.
const rosterEvery = time.Minute

// rosterSoonest is the minimum time between two rosters that differ only in the newest round.
const rosterSoonest = BeatEvery

// server answers the workers of a run.
type server struct {
	tree      *tree
	run       string
	admission membership.Admission
	o         ServeOptions
	report    *reporter
	sessions  map[string]*workerSession // by worker
}

// ServeAdmission answers the messages of a run's workers until ctx ends. While new beat files of a worker arrive, it
// sends beats to the admission server on the worker's behalf. So the admission server can keep its short timeout for
// networks. If the folder is unavailable, ServeAdmission retries. It returns nil.
func ServeAdmission(ctx context.Context, dir, run string, admission membership.Admission, o ServeOptions) error {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if o.Silence <= 0 {
		o.Silence = SilentAfter
	}
	if o.Poll <= 0 {
		o.Poll = membership.BeatInterval
		if !isLocal(dir) {
			o.Poll = longPolls * defaultPoll
		}
	}
	c := &server{tree: baseOf(dir), run: run, admission: admission, o: o, report: &reporter{logger: logger.With("run", run)}, sessions: make(map[string]*workerSession)}
	for {
		err := c.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.report.trouble(explain(dir, err))
		if sleep(ctx, o.Poll) != nil {
			return nil
		}
	}
}

// handlers is the number of workers served at a time.
const handlers = 8

// round serves every worker once.
func (c *server) round(ctx context.Context) error {
	names, err := c.tree.list(path.Join(runPath(c.run), workersPart))
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(handlers)
	for _, name := range names {
		worker, ok := decode(name)
		if !ok || !plain(worker, membership.MaxNameBytes) {
			continue // a copy under another name, or not a worker's folder
		}
		v := c.sessions[worker]
		if v == nil {
			if len(c.sessions) >= membership.MaxWorkers {
				c.report.warn("crowd", fmt.Sprintf("more than %d workers in the shared folder; %q is ignored", membership.MaxWorkers, worker))
				continue
			}
			v = newWorkerSession(c, worker)
			c.sessions[worker] = v
		}
		group.Go(func() error { return v.attend(ctx) })
	}
	return group.Wait()
}

// Store writes a batch on behalf of its node, unless the node already has one for the round. It is for offers that
// arrived over another transport.
func Store(ctx context.Context, dir, run string, offer membership.Offer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if offer.Round < 0 || offer.Round > maxRounds {
		return fmt.Errorf("store round %d of %s: no such round", offer.Round, offer.Node)
	}
	if err := store(baseOf(dir), run, offer.Node, offer.Round, storeProcess, offer.Data); err != nil {
		return fmt.Errorf("store round %d of %s: %w", offer.Round, offer.Node, explain(dir, err))
	}
	return nil
}

// storeProcess takes the place of the process id in batches that Store writes.
const storeProcess = "00000000"

// refusalOf converts an admission server's error to a refusal. Errors that are no refusal become CodeInternal.
func refusalOf(err error) *membership.Refusal {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return membership.Refuse(membership.CodeInternal, "the coordinator could not answer: %v", err)
}
