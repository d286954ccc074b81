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

// ServeOptions tune ServeAdmission.
type ServeOptions struct {
	Poll    time.Duration // how often the folder is looked at; 0: two seconds, or five where it isn't on this machine's disk
	Silence time.Duration // a worker without a new beat file for as long has fallen silent; 0: SilentAfter
	Logger  *slog.Logger  // may be nil
}

// rosterEvery is how often a roster is written although nothing changed: the coordinator's sign of life.
const rosterEvery = time.Minute

// rosterSoonest is how soon after a roster one is written in which only the newest round is another.
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

// ServeAdmission answers the messages of a run's workers until ctx ends. To the admission server it beats for a worker
// as long as new beat files of it come, so that the admission server's own patience, made for networks, needn't know of
// the folder's. A folder that is away is waited for. It returns nil.
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

// handlers is how many workers are attended to at once.
const handlers = 8

// round attends to every worker once.
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
			continue // a copy by another name, or nobody's
		}
		v := c.sessions[worker]
		if v == nil {
			if len(c.sessions) >= membership.MaxWorkers {
				c.report.warn("crowd", fmt.Sprintf("more than %d workers in the shared folder; %q is not attended to", membership.MaxWorkers, worker))
				continue
			}
			v = newWorkerSession(c, worker)
			c.sessions[worker] = v
		}
		group.Go(func() error { return v.attend(ctx) })
	}
	return group.Wait()
}

// Store writes a batch as its node's own, unless there is one: for offers that came another way.
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

// storeProcess stands for the process of a node whose batch somebody else stored.
const storeProcess = "00000000"

// refusalOf makes a refusal of an admission server's error; another error is the coordinator's own trouble.
func refusalOf(err error) *membership.Refusal {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return membership.Refuse(membership.CodeInternal, "the coordinator couldn't answer: %v", err)
}
