package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// badWay is an Uplink to an admission server. It loses requests and answers, delays them, and repeats requests at once
// or much later. It is seeded.
type badWay struct {
	testServer *testServer
	worker     string

	mu   sync.Mutex
	rng  *rand.Rand
	old  []func() // requests to repeat
	loss float64
	down bool
	late sync.WaitGroup
}

var errWay = errors.New("the way is down")

// carry makes a request under the current conditions.
func carry[Q, A any](ctx context.Context, w *badWay, request Q, call func(context.Context, string, Q) (A, error)) (A, error) {
	var none A
	data, err := json.Marshal(request)
	if err != nil {
		return none, err
	}
	once := func() (A, error) {
		var copied Q
		if err := json.Unmarshal(data, &copied); err != nil {
			return none, err
		}
		return call(context.WithoutCancel(ctx), w.worker, copied)
	}
	w.mu.Lock()
	lost, unanswered, twice := w.down || w.rng.Float64() < w.loss, w.rng.Float64() < w.loss, w.rng.Float64() < w.loss
	var again func()
	if len(w.old) > 0 && twice {
		again = w.old[w.rng.IntN(len(w.old))]
	}
	w.old = append(w.old, func() { _, _ = once() })
	w.old = w.old[max(0, len(w.old)-20):]
	w.mu.Unlock()
	if again != nil {
		w.late.Go(again) // concurrently with this request, so reordered
	}
	if lost {
		return none, errWay
	}
	answer, err := once()
	if unanswered {
		return none, errWay
	}
	return answer, err
}

func (w *badWay) Hello(ctx context.Context, m Hello) (Welcome, error) {
	return carry(ctx, w, m, w.testServer.Hello)
}
func (w *badWay) Join(ctx context.Context, m Join) (Joined, error) {
	return carry(ctx, w, m, w.testServer.Join)
}
func (w *badWay) Beat(ctx context.Context, m Beat) (Roster, error) {
	return carry(ctx, w, m, w.testServer.Beat)
}
func (w *badWay) Close() error { return nil }
func (w *badWay) Deliver(ctx context.Context, m Delivery) (Receipt, error) {
	return carry(ctx, w, m, w.testServer.Deliver)
}

func (w *badWay) set(down bool, loss float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.loss = down, loss
}

// However requests and answers are lost or repeated, in the end every event is in the database once and in order.
func TestEveryEventArrivesOnceOverABadWay(t *testing.T) {
	for seed := range uint64(4) {
		d := newTestServer(t, func(o *AdmissionOptions) { o.Trusted = true })
		_, err := d.join("w", NodeInfo{})
		require.NoError(t, err)
		way := &badWay{testServer: d, worker: "w", rng: rand.New(rand.NewPCG(seed, 1)), loss: 0.3}
		dir := memory(t)
		o := outbox(t, dir)
		next := 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for life := range 4 { // the worker's successive processes
			c := &DeliveryClient{Uplink: way, Outbox: o, Run: "run", Logger: quiet()}
			for range 30 {
				for range 1 + int(seed)*7%40 {
					require.NoError(t, o.Append(event.Event{Type: event.TypeWarning, Time: 1000 + float64(next), Node: "w_0", Message: fmt.Sprint(next)}))
					next++
				}
				_, _, _ = c.deliver(ctx) // errors are expected
			}
			if life < 3 {
				require.NoError(t, o.Close())
				o = outbox(t, dir)
				continue
			}
			for range 20 {
				_, _, _ = c.deliver(ctx)
			}
			way.set(false, 0)
			require.NoError(t, c.Drain(ctx))
		}
		cancel()
		way.late.Wait()
		events, _ := o.Pending()
		require.Zero(t, events)
		require.NoError(t, o.Close())
		var got []string
		for key, list := range d.events {
			require.True(t, strings.HasPrefix(key, "w/"))
			for _, e := range list {
				got = append(got, e.Message)
			}
		}
		require.Len(t, d.events, 1, "one outbox, whose name stays")
		require.Len(t, got, next-1)
		for i, message := range got {
			require.Equal(t, fmt.Sprint(i+1), message)
		}
	}
}

// collector records the calls of a delivery client.
type collector struct {
	mu      sync.Mutex
	members [][]protocol.Member
	ended   []string
	trouble []error
}

func (c *collector) client(way Uplink, o *Outbox) *DeliveryClient {
	return &DeliveryClient{
		Uplink: way, Outbox: o, Run: "run", Logger: quiet(), Interval: 5 * time.Millisecond, Silence: 50 * time.Millisecond,
		Progress: func() []Progress { return []Progress{at("w_0", 2)} },
		Members:  func(m []protocol.Member) { c.mu.Lock(); defer c.mu.Unlock(); c.members = append(c.members, m) },
		Ended:    func(s, m string) { c.mu.Lock(); defer c.mu.Unlock(); c.ended = append(c.ended, s+" "+m) },
		Trouble:  func(err error) { c.mu.Lock(); defer c.mu.Unlock(); c.trouble = append(c.trouble, err) },
	}
}

func (c *collector) seen() (members, ended, trouble int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members), len(c.ended), len(c.trouble)
}

func TestADeliveryClientPassesOnTheSwarmItsEndAndTrouble(t *testing.T) {
	d := newTestServer(t, func(o *AdmissionOptions) { o.Trusted = true })
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	way := &badWay{testServer: d, worker: "w", rng: rand.New(rand.NewPCG(1, 1))}
	o := outbox(t, memory(t))
	defer o.Close()
	var c collector
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- c.client(way, o).Serve(ctx) }()
	until := func(what string, done func(members, ended, trouble int) bool) {
		require.Eventually(t, func() bool { return done(c.seen()) }, time.Minute, time.Millisecond, what)
	}
	until("the swarm", func(m, _, _ int) bool { return m == 1 })
	d.Lost("node_1")
	until("who was lost", func(m, _, _ int) bool { return m == 2 })
	require.Equal(t, []string{"node_0", "w_0"}, namesOf(c.members[1]))

	way.set(true, 0)
	fill(t, o, 1, 5)
	until("silence", func(_, _, trouble int) bool { return trouble == 1 })
	require.ErrorContains(t, c.trouble[0], "5 events wait")
	way.set(false, 0)
	require.Eventually(t, func() bool { events, _ := o.Pending(); return events == 0 }, time.Minute, time.Millisecond)
	d.End("done", "well")
	until("the end", func(_, ended, _ int) bool { return ended == 1 })
	cancel()
	require.NoError(t, <-served)
	require.Equal(t, event.WorkerLeft, d.Workers()[0].State, "it took leave")
	_, ended, trouble := c.seen()
	require.Equal(t, []int{1, 1}, []int{ended, trouble}, "once each")
}

func TestAFinalRefusalEndsTheDeliveryClient(t *testing.T) {
	for _, final := range []string{CodeBanned, CodeRevoked, CodeRun, CodeVersion, CodeName} {
		o := outbox(t, memory(t))
		var c collector
		err := c.client(refusing{code: final}, o).Serve(t.Context())
		require.Equal(t, final, code(t, err))
		require.Equal(t, final, code(t, (&DeliveryClient{Uplink: refusing{code: final}, Outbox: filled(t, o), Run: "run", Logger: quiet()}).Drain(t.Context())))
		require.NoError(t, o.Close())
	}
}

func filled(t testing.TB, o *Outbox) *Outbox { fill(t, o, 1, 1); return o }

func TestOtherRefusalsAreToldOnceAndTriedAgain(t *testing.T) {
	o := outbox(t, memory(t))
	defer o.Close()
	var c collector
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	client := c.client(refusing{code: CodeFull}, o)
	client.Silence = time.Hour
	go func() { served <- client.Serve(ctx) }()
	require.Eventually(t, func() bool { _, _, trouble := c.seen(); return trouble > 0 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-served)
	_, _, trouble := c.seen()
	require.Equal(t, 1, trouble)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := (&DeliveryClient{Uplink: refusing{code: CodeInternal}, Outbox: filled(t, o), Run: "run", Logger: quiet()}).Drain(ctx)
	require.ErrorContains(t, err, "1 events wait")
}

// timed is a coordinator that notes how long a delivery may take.
type timed struct {
	refusing
	limit *time.Duration
}

func (t timed) Deliver(ctx context.Context, _ Delivery) (Receipt, error) {
	until, _ := ctx.Deadline()
	*t.limit = time.Until(until)
	return Receipt{}, errWay
}

// A delivery is abandoned after the time that counts as silence, with its defaults too.
func TestADeliveryHasTheTimeOfSilence(t *testing.T) {
	for _, c := range []struct {
		silence, interval, want time.Duration
	}{
		{0, 0, SilentAfter},
		{0, time.Minute, 3 * time.Minute},
		{time.Second, 0, callLimit},
		{time.Hour, 0, time.Hour},
	} {
		o, limit := outbox(t, memory(t)), time.Duration(0)
		client := &DeliveryClient{Uplink: timed{limit: &limit}, Outbox: filled(t, o), Run: "run", Logger: quiet(), Silence: c.silence, Interval: c.interval}
		_, _, err := client.deliver(t.Context())
		require.ErrorIs(t, err, errWay)
		require.LessOrEqual(t, limit, c.want)
		require.Greater(t, limit, c.want*4/5)
		require.NoError(t, o.Close())
	}
}

// refusing is a coordinator that refuses everything.
type refusing struct{ code string }

func (r refusing) Hello(context.Context, Hello) (Welcome, error) {
	return Welcome{}, Refuse(r.code, "no")
}
func (r refusing) Join(context.Context, Join) (Joined, error) { return Joined{}, Refuse(r.code, "no") }
func (r refusing) Beat(context.Context, Beat) (Roster, error) {
	return Roster{}, fmt.Errorf("beat: %w", Refuse(r.code, "no"))
}
func (r refusing) Deliver(context.Context, Delivery) (Receipt, error) {
	return Receipt{}, Refuse(r.code, "no")
}
func (r refusing) Close() error { return nil }

// A coordinator with invalid answers makes the worker neither spin nor lose events.
func TestADeliveryClientOutlivesNonsense(t *testing.T) {
	o := outbox(t, memory(t))
	defer o.Close()
	fill(t, o, 1, 3)
	way := &nonsense{acked: []int64{99, -5, 1 << 60, 0, 2}}
	c := &DeliveryClient{Uplink: way, Outbox: o, Run: "run", Logger: quiet()}
	for range way.acked[:4] {
		empty, wait, err := c.deliver(t.Context())
		require.NoError(t, err)
		require.False(t, empty)
		require.True(t, wait > 0 || way.calls == 1)
	}
	events, _ := o.Pending()
	require.Positive(t, events)
}

type nonsense struct {
	refusing
	acked []int64
	calls int
}

func (n *nonsense) Deliver(context.Context, Delivery) (Receipt, error) {
	n.calls++
	return Receipt{Acked: n.acked[(n.calls-1)%len(n.acked)]}, nil
}

// forgetful is an admission that loses the newest acknowledged events in a power failure.
type forgetful struct {
	Uplink
	mu     sync.Mutex
	events []int
	asked  int
	cut    bool // the connection is down
}

func (f *forgetful) Beat(context.Context, Beat) (Roster, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return Roster{}, errWay
	}
	return Roster{}, nil
}

func (f *forgetful) Deliver(_ context.Context, d Delivery) (Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.cut:
		return Receipt{}, errWay
	case len(d.Events) == 0:
		f.asked++
	}
	if acked := int64(len(f.events)); d.First <= acked+1 && d.First+int64(len(d.Events))-1 > acked {
		var here []int
		for _, raw := range d.Events[acked+1-d.First:] {
			var e event.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				return Receipt{}, err
			}
			here = append(here, int(e.Time))
		}
		f.events = append(f.events, here...)
	}
	return Receipt{Acked: int64(len(f.events))}, nil
}

func (f *forgetful) all() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// A worker that has delivered everything detects after an interruption that the coordinator has lost a part. It
// delivers that part again, even without new events.
func TestAWorkerWithNothingNewDeliversAgain(t *testing.T) {
	o := outbox(t, memory(t))
	defer o.Close()
	const all = 700
	for n := 1; n <= all; n++ {
		e := told(n)
		e.Message = strings.Repeat("x", 10_000)
		require.NoError(t, o.Append(e))
	}
	coordinator := &forgetful{}
	client := &DeliveryClient{Uplink: coordinator, Outbox: o, Run: "run", Interval: time.Millisecond, Logger: quiet()}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- client.Serve(ctx) }()
	delivered := func() bool { events, _ := o.Pending(); return events == 0 && len(coordinator.all()) == all }
	require.Eventually(t, delivered, time.Minute, time.Millisecond)
	coordinator.mu.Lock()
	require.Zero(t, coordinator.asked, "nobody asks without a reason")
	coordinator.cut, coordinator.events = true, coordinator.events[:all-300]
	coordinator.mu.Unlock()
	require.Eventually(t, client.doubt.Load, time.Minute, time.Millisecond)
	coordinator.mu.Lock()
	coordinator.cut = false
	coordinator.mu.Unlock()
	require.Eventually(t, delivered, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-served)
	require.Equal(t, upTo(1, all), coordinator.all())
}
