package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Times of a DeliveryClient.
const (
	deliverEvery = 500 * time.Millisecond
	callLimit    = 10 * time.Second // per request
	leaveLimit   = 3 * time.Second  // for the last beat
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
	deliverBytes = MaxMessageBytes - 16<<10 // the rest is for the envelope
	confirmEvery = 5 * time.Minute          // how often a worker with nothing to deliver asks what the coordinator has
)

// DeliveryClient sends a worker's beats and delivers its events. All its functions may be nil. Each is called from one
// goroutine at a time.
type DeliveryClient struct {
	Uplink   Uplink
	Outbox   *Outbox
	Run      string
	Process  string // as in Hello; empty: Serve generates one
	Progress func() []Progress
	Members  func([]protocol.Member)     // the swarm has changed
	Ended    func(state, message string) // the run has ended at the coordinator; called once
	Trouble  func(error)                 // refusals and long silence, each reported once until it is over
	Silence  time.Duration               // until silence is reported, and a delivery abandoned; 0: SilentAfter, or 3 Intervals if longer
	Interval time.Duration               // between beats; 0: BeatInterval
	Logger   *slog.Logger

	delivering sync.Mutex
	confirmed  time.Time // when the coordinator last confirmed what it has, or the first delivery began; guarded by delivering
	doubt      atomic.Bool
	trouble    troubles
	ended      bool
}

// troubles records the reported problems, so that each is reported once until it is over.
type troubles struct {
	mu       sync.Mutex
	reported map[string]bool
}

// Serve runs until ctx ends, then sends the last beat. A final refusal ends it at once with a *Refusal: the worker is
// banned or revoked, another process has its name, or the run or version differs.
func (c *DeliveryClient) Serve(ctx context.Context) error {
	if c.Process == "" {
		c.Process = secret(8)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var both sync.WaitGroup
	for _, work := range []func(context.Context) error{c.beats, c.deliveries} {
		both.Go(func() {
			if err := work(inner); err != nil {
				cancel(err)
			}
		})
	}
	both.Wait()
	var refusal *Refusal
	if errors.As(context.Cause(inner), &refusal) {
		return refusal
	}
	c.leave(context.WithoutCancel(ctx))
	return nil
}

// final reports whether err is a refusal that a retry can't change.
func final(err error) bool {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Code {
	case CodeBanned, CodeRevoked, CodeVersion, CodeRun, CodeName:
		return true
	}
	return false
}

// beats sends a beat every Interval. It returns a final refusal.
func (c *DeliveryClient) beats(ctx context.Context) error {
	interval, silence := c.pace()
	var version int64
	answered := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := c.beat(ctx, &version, interval)
		switch {
		case ctx.Err() != nil:
			return nil
		case final(err):
			return err
		case err == nil:
			answered = time.Now()
			c.over("silence")
			c.over("beat")
		case time.Since(answered) > silence:
			events, _ := c.Outbox.Pending()
			c.report("silence", fmt.Errorf("the coordinator has not answered for %s; training continues, and %d events wait on this disk: %w",
				time.Since(answered).Round(time.Second), events, err))
		default:
			c.refused("beat", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// pace returns Interval and Silence, or their defaults.
func (c *DeliveryClient) pace() (interval, silence time.Duration) {
	interval = cmp.Or(c.Interval, BeatInterval)
	return interval, cmp.Or(c.Silence, max(SilentAfter, 3*interval))
}

// beat sends one beat and passes on the answer. version is the version of the known roster.
func (c *DeliveryClient) beat(ctx context.Context, version *int64, interval time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(callLimit, 2*interval))
	defer cancel()
	roster, err := c.Uplink.Beat(ctx, c.sign(*version))
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			c.doubt.Store(true) // the coordinator was not reached, so it may have been replaced by one with fewer events
		}
		return err
	}
	if roster.Version != *version && roster.Members != nil {
		*version = roster.Version
		if c.Members != nil {
			c.Members(roster.Members)
		}
	}
	if roster.Ended != "" && !c.ended {
		c.ended = true
		if c.Ended != nil {
			c.Ended(roster.Ended, roster.Message)
		}
	}
	return nil
}

func (c *DeliveryClient) sign(version int64) Beat {
	pending, _ := c.Outbox.Pending()
	beat := Beat{Protocol: Protocol, Run: c.Run, Process: c.Process, Roster: version, Time: event.Now(), Pending: pending}
	if c.Progress != nil {
		beat.Nodes = c.Progress()
	}
	return beat
}

// leave sends the last beat. Without it, the coordinator detects the end later.
func (c *DeliveryClient) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	beat := c.sign(-1)
	beat.Left = true
	if _, err := c.Uplink.Beat(ctx, beat); err != nil {
		c.Logger.Debug("left without a message", "error", err)
	}
}

// deliveries empties the outbox repeatedly. It returns a final refusal.
func (c *DeliveryClient) deliveries(ctx context.Context) error {
	pause := deliverEvery
	timer, syncs := time.NewTimer(0), time.NewTicker(deliverEvery)
	defer timer.Stop()
	defer syncs.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-syncs.C:
			if err := c.Outbox.Sync(); err != nil {
				c.Logger.Debug("outbox not synced", "error", err)
			}
			continue
		case <-timer.C:
		}
		_, wait, err := c.deliver(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case final(err):
			return err
		case err != nil:
			c.refused("deliver", err)
			pause = min(max(firstPause, 2*pause), longestPause)
		default:
			c.over("deliver")
			pause = deliverEvery
		}
		timer.Reset(max(wait, pause))
	}
}

// Drain delivers until the outbox is empty. Its error is a final *Refusal, or ctx's with the last problem.
func (c *DeliveryClient) Drain(ctx context.Context) error {
	pause := firstPause
	for {
		empty, wait, err := c.deliver(ctx)
		if err == nil && empty {
			return nil
		}
		if final(err) {
			return err
		}
		if err != nil {
			wait, pause = max(wait, pause), min(2*pause, longestPause/5)
		} else {
			pause = firstPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			events, _ := c.Outbox.Pending()
			return errors.Join(fmt.Errorf("deliver to the coordinator: %d events wait: %w", events, context.Cause(ctx)), err)
		}
	}
}

// deliver delivers events until none are left, a request fails or it must wait. With nothing to deliver, it asks what
// the coordinator has: from time to time, and after each interruption. A coordinator that lost power or was restored
// may have less than it acknowledged.
func (c *DeliveryClient) deliver(ctx context.Context) (empty bool, wait time.Duration, err error) {
	c.delivering.Lock()
	defer c.delivering.Unlock()
	if c.confirmed.IsZero() {
		c.confirmed = time.Now()
	}
	for ctx.Err() == nil {
		d, err := c.Outbox.Next(MaxDeliveryEvents, deliverBytes)
		if err != nil {
			return false, 0, err
		}
		asks := len(d.Events) == 0
		if asks && !c.doubt.Load() && time.Since(c.confirmed) < confirmEvery {
			return true, 0, nil
		}
		d.Protocol, d.Run = Protocol, c.Run
		receipt, err := c.hand(ctx, d)
		if err != nil {
			var refusal *Refusal
			if errors.As(err, &refusal) {
				wait = seconds(refusal.RetryAfter)
			} else {
				c.doubt.Store(true)
			}
			return false, wait, err
		}
		c.doubt.Store(false)
		c.confirmed = time.Now()
		if err := c.Outbox.Ack(receipt.Acked); err != nil {
			return false, 0, err
		}
		if asks {
			continue
		}
		if receipt.RetryAfter > 0 || receipt.Acked < d.First { // no event was accepted
			return false, max(firstPause, seconds(receipt.RetryAfter)), nil
		}
	}
	return false, 0, ctx.Err()
}

// hand sends one delivery. It waits for the receipt for at most Silence, but at least callLimit.
func (c *DeliveryClient) hand(ctx context.Context, d Delivery) (Receipt, error) {
	_, silence := c.pace()
	ctx, cancel := context.WithTimeout(ctx, max(callLimit, silence)) // an answer through a synced folder takes minutes
	defer cancel()
	return c.Uplink.Deliver(ctx, d)
}

// seconds returns how long to wait. It limits the coordinator's value to longestPause.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return units.Seconds(min(s, longestPause.Seconds()))
}

// refused reports a refusal. Transport errors are only logged, because beats reports silence.
func (c *DeliveryClient) refused(what string, err error) {
	var refusal *Refusal
	var answer *AnswerError
	if errors.As(err, &refusal) && refusal.Code != CodeRate && refusal.Code != CodeInternal || errors.As(err, &answer) {
		c.report(what, err)
		return
	}
	c.Logger.Debug("the coordinator is not reachable now", "request", what, "error", err)
}

func (c *DeliveryClient) report(what string, err error) {
	c.trouble.mu.Lock()
	again := c.trouble.reported[what]
	if c.trouble.reported == nil {
		c.trouble.reported = map[string]bool{}
	}
	c.trouble.reported[what] = true
	c.trouble.mu.Unlock()
	if !again && c.Trouble != nil {
		c.Trouble(err)
	}
}

// over records that a request works again.
func (c *DeliveryClient) over(what string) {
	c.trouble.mu.Lock()
	was := c.trouble.reported[what]
	delete(c.trouble.reported, what)
	c.trouble.mu.Unlock()
	if was {
		c.Logger.Info("the coordinator answers again", "request", what)
	}
}
