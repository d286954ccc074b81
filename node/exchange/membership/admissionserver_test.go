package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// testServer is an AdmissionServer with a clock, a database and an exchange in memory.
type testServer struct {
	*AdmissionServer
	t testing.TB

	mu       sync.Mutex
	now      time.Time
	told     []event.Event
	stored   []Offer
	events   map[string][]event.Event // content of the database, by outbox
	taken    map[string]int64
	recorded map[string]int
	expelled []string
	broken   error
}

func newTestServer(t testing.TB, change func(*AdmissionOptions), known ...KnownMember) *testServer {
	d := &testServer{t: t, now: time.Unix(1_000_000, 0), events: map[string][]event.Event{}, taken: map[string]int64{}, recorded: map[string]int{}}
	for _, k := range known {
		d.recorded[k.Node] = k.From + 5
	}
	o := AdmissionOptions{
		Run: "run", Experiment: "exp", Version: "v1", Config: json.RawMessage(`{}`), Cfg: testConfig(), Rounds: 100,
		Local: protocol.Members("node_0", "node_1"), Logger: quiet(), Now: d.clock,
		Store: func(_ context.Context, o Offer) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.stored = append(d.stored, o)
			return d.broken
		},
		Deliver: d.record,
		Acked: func(_ context.Context, worker, outbox string) (int64, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.taken[worker+"/"+outbox], nil
		},
		Recorded: func(context.Context) (map[string]int, map[string][]int, error) {
			return d.recorded, map[string][]int{}, nil
		},
		Report: func(e event.Event) { d.mu.Lock(); defer d.mu.Unlock(); d.told = append(d.told, e) },
		Expel:  func(worker string) { d.expelled = append(d.expelled, worker) },
	}
	if change != nil {
		change(&o)
	}
	var err error
	d.AdmissionServer, err = NewAdmissionServer(o, known)
	require.NoError(t, err)
	return d
}

func (d *testServer) clock() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }

func (d *testServer) later(by time.Duration) {
	d.mu.Lock()
	d.now = d.now.Add(by)
	d.mu.Unlock()
	d.sweep()
}

// record is a database that accepts each event once.
func (d *testServer) record(_ context.Context, worker string, delivery Delivery, events []event.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := worker + "/" + delivery.Outbox
	if d.broken != nil {
		return d.broken
	}
	if delivery.First != d.taken[key]+1 || len(events) != len(delivery.Events) {
		d.t.Errorf("delivery from %d of %d events for %d, after %d", delivery.First, len(events), len(delivery.Events), d.taken[key])
	}
	d.taken[key] += int64(len(events))
	d.events[key] = append(d.events[key], events...)
	return nil
}

// said returns the reported events in short form and clears them.
func (d *testServer) said() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.told {
		what := string(e.Type)
		if e.Type == event.TypeWorker {
			what = string(e.State)
		}
		list = append(list, strings.TrimSpace(what+" "+e.Worker+" "+e.Node))
	}
	d.told = nil
	return list
}

func (d *testServer) hello(worker, host, process string) error {
	_, err := d.Hello(d.t.Context(), worker, Hello{Protocol: Protocol, Version: "v1", Host: host, Process: process, Time: unix(d.clock())})
	return err
}

func (d *testServer) join(worker string, nodes ...NodeInfo) (Joined, error) {
	return d.Join(d.t.Context(), worker, Join{Protocol: Protocol, Run: "run", Device: "cpu", Nodes: nodes})
}

func (d *testServer) beat(worker string, nodes ...Progress) (Roster, error) {
	return d.Beat(d.t.Context(), worker, Beat{Protocol: Protocol, Run: "run", Nodes: nodes})
}

func (d *testServer) batch(node string, round, rollouts, completions int) Offer {
	b := exchange.Batch{Node: node, Round: round}
	for range rollouts {
		b.Rollouts = append(b.Rollouts, exchange.Rollout{
			Question: "q", Metadata: json.RawMessage(`{}`), Completions: make([]exchange.Completion, completions),
		})
	}
	data, err := exchange.Encode(b)
	require.NoError(d.t, err)
	return Offer{Node: node, Round: round, Data: data}
}

func at(node string, round int) Progress {
	return Progress{Node: node, Round: round, State: event.StateGenerating}
}

func absent(members []protocol.Member) (list []string) {
	for _, m := range members {
		if m.Absent {
			list = append(list, m.Node)
		}
	}
	return list
}

func TestAWorkerJoinsTrainsFallsSilentComesBackAndLeaves(t *testing.T) {
	d := newTestServer(t, nil)
	d.Progress("node_0", 7)
	require.NoError(t, d.hello("w", "desk", "p1"))
	joined, err := d.join("w", NodeInfo{Model: "nano"}, NodeInfo{Name: "star", Model: "nano"})
	require.NoError(t, err)
	require.Equal(t, []NodeAssignment{
		{Node: "w_0", From: 9, Recorded: 9, Evaluated: []int{}}, {Node: "star", From: 9, Recorded: 9, Evaluated: []int{}},
	}, joined.Assignments)
	require.Equal(t, []string{"node_0", "node_1", "w_0", "star"}, namesOf(joined.Roster.Members))
	require.Equal(t, []string{"connected w", "join w w_0", "join w star"}, d.said())

	require.Equal(t, []string{"w_0", "star"}, absent(joined.Roster.Members), "nobody waits for who has shared nothing yet")
	require.True(t, joined.Roster.Members[2].Ahead, "but they wait for the others")
	for _, node := range []string{"w_0", "star"} {
		require.NoError(t, d.Offer(t.Context(), "w", d.batch(node, 9, 2, 4)))
	}
	members, changed := d.Members()
	require.Empty(t, absent(members))
	require.Empty(t, d.said())
	roster, err := d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "run", Process: "p1"})
	require.NoError(t, err)
	require.Equal(t, roster.Members, members)
	beat := Beat{Protocol: Protocol, Run: "run", Roster: roster.Version, Process: "p1", Nodes: []Progress{at("w_0", 9), at("star", 9)}}
	roster, err = d.Beat(t.Context(), "w", beat)
	require.NoError(t, err)
	require.Nil(t, roster.Members, "it knows them")
	require.Equal(t, 7, roster.Round)
	select {
	case <-changed:
		require.Fail(t, "nothing has changed")
	default:
	}

	d.later(SilentAfter + time.Second)
	<-changed
	members, _ = d.Members()
	require.Equal(t, []string{"w_0", "star"}, absent(members))
	require.Equal(t, []string{"away w", "leave w w_0", "leave w star"}, d.said())
	require.Equal(t, event.WorkerAway, d.Workers()[0].State)

	roster, err = d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "run", Process: "p1", Nodes: []Progress{at("w_0", 9)}})
	require.NoError(t, err)
	require.Empty(t, absent(roster.Members))
	require.ElementsMatch(t, []string{"connected w", "join w w_0", "join w star"}, d.said())

	_, err = d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "run", Process: "p1", Left: true})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"left w", "leave w w_0", "leave w star"}, d.said())
	members, _ = d.Members()
	require.Len(t, members, 2)
	_, err = d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "run", Process: "p1", Nodes: []Progress{at("w_0", 9)}})
	require.NoError(t, err)
	require.Empty(t, d.said(), "a beat that comes late doesn't bring it back")
}

// A node may claim any round. It is trusted up to the one after the newest that it shared.
func TestANodeIsTrustedWithWhatItShared(t *testing.T) {
	d := newTestServer(t, func(o *AdmissionOptions) { o.Local = nil })
	require.NoError(t, d.hello("w", "desk", ""))
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	for shared := -1; shared < 4; shared++ {
		if shared >= 2 {
			require.NoError(t, d.Offer(t.Context(), "w", d.batch("w_0", shared, 2, 4)))
		}
		_, err = d.beat("w", at("w_0", 99))
		require.NoError(t, err)
		n := d.Nodes()[0]
		require.Equal(t, []any{"w", 2, 99, max(2, shared+1)}, []any{n.Worker, n.From, n.Round, n.Trusted})
	}
}

func TestAWorkerComesBackToItsPlace(t *testing.T) {
	d := newTestServer(t, nil, KnownMember{Node: "w_0", Worker: "w", From: 10})
	d.Progress("node_0", 20)
	require.Empty(t, d.said(), "what an earlier attempt has told is not told again")
	members, _ := d.Members()
	require.Equal(t, []string{"w_0"}, absent(members), "nobody has heard of it yet")
	_, err := d.beat("w", at("w_0", 20))
	require.NoError(t, err, "its process has outlived the coordinator")
	members, _ = d.Members()
	require.Equal(t, []string{"w_0"}, absent(members), "it says that it is in step, and has shared nothing")
	require.NoError(t, d.Offer(t.Context(), "w", d.batch("w_0", 20, 2, 4)))
	members, _ = d.Members()
	require.Empty(t, absent(members))

	joined, err := d.join("w", NodeInfo{Name: "w_0", Rounds: 15})
	require.NoError(t, err)
	require.Equal(t, NodeAssignment{Node: "w_0", From: 10, Recorded: 15, Evaluated: []int{}}, joined.Assignments[0], "a former life goes on")
	require.NoError(t, d.Offer(t.Context(), "w", d.batch("w_0", 21, 2, 4)))
	joined, err = d.join("w", NodeInfo{Name: "w_0"}, NodeInfo{})
	require.NoError(t, err)
	require.Equal(t, 22, joined.Assignments[0].From, "one that was lost begins where the swarm is, after all it has shared")
	require.Equal(t, "w_1", joined.Assignments[1].Node)
	joined, err = d.join("w", NodeInfo{Name: "w_1", Rounds: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"node_0", "node_1", "w_1"}, namesOf(joined.Roster.Members), "what it doesn't bring any more has left")
}

func TestNamesAreValidAndTheWorkersOwn(t *testing.T) {
	d := newTestServer(t, nil)
	_, err := d.join("a", NodeInfo{Name: "b_0"})
	require.NoError(t, err)
	joined, err := d.join("b", NodeInfo{})
	require.NoError(t, err)
	require.Equal(t, "b_1", joined.Assignments[0].Node)
	for _, bad := range []string{"node_0", "Node_1", "b_0", "B_0", "../x", "a.b", "ü", strings.Repeat("x", 33)} {
		_, err = d.join("b", NodeInfo{Name: bad})
		require.Equal(t, CodeName, code(t, err), bad)
	}
	_, err = d.join("c", NodeInfo{Name: "x"}, NodeInfo{Name: "X"})
	require.Equal(t, CodeName, code(t, err))
	for n := range maxEverNodes/MaxNodes + 1 {
		var nodes []NodeInfo
		for i := range MaxNodes {
			nodes = append(nodes, NodeInfo{Name: fmt.Sprintf("n%d_%d", n, i)})
		}
		_, err = d.join("greedy", nodes...)
	}
	require.Equal(t, CodeFull, code(t, err))
	_, err = d.join("d", make([]NodeInfo, MaxNodes+1)...)
	require.Equal(t, CodeMalformed, code(t, err))
	_, err = d.join("a/b", NodeInfo{})
	require.Equal(t, CodeName, code(t, err))
	d.Progress("node_0", 98)
	_, err = d.join("late", NodeInfo{})
	require.Equal(t, CodeEnded, code(t, err))
}

func TestTwoProcessesWithOneWorkersCredentials(t *testing.T) {
	d := newTestServer(t, nil)
	require.NoError(t, d.hello("w", "desk", "p1"))
	require.NoError(t, d.hello("w", "desk", "p1"), "again is no harm")
	for _, other := range [][2]string{{"sofa", "p1"}, {"desk", "p2"}, {"sofa", ""}} {
		err := d.hello("w", other[0], other[1])
		require.Equal(t, CodeName, code(t, err))
		require.ErrorContains(t, err, "already connected from desk")
		var refusal *Refusal
		require.True(t, errors.As(err, &refusal))
		require.InDelta(t, SilentAfter.Seconds(), refusal.RetryAfter, 1)
	}
	require.Equal(t, []string{"connected w", "warning w"}, d.said(), "one line here, too, once a minute")
	d.later(SilentAfter + time.Second)
	require.NoError(t, d.hello("w", "sofa", "p2"), "the first is silent")
	_, err := d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "run", Process: "p1"})
	require.Equal(t, CodeName, code(t, err), "and is told so when it wakes up")
}

func TestOtherVersionsAndRunsAreRefusedOnBothSides(t *testing.T) {
	d := newTestServer(t, nil)
	for range 3 {
		_, err := d.Hello(t.Context(), "w", Hello{Protocol: 1, Version: "v9"})
		require.Equal(t, CodeVersion, code(t, err))
		require.ErrorContains(t, err, "the coordinator (swarm v1) uses protocol 2, but the worker (v9) uses 1. Try: ")
	}
	require.Equal(t, []string{"warning w"}, d.said())
	d.later(warnEvery)
	_, err := d.Beat(t.Context(), "w", Beat{Protocol: 1})
	require.Equal(t, CodeVersion, code(t, err))
	require.Equal(t, []string{"warning w"}, d.said())
	_, err = d.Beat(t.Context(), "w", Beat{Protocol: Protocol, Run: "other"})
	require.Equal(t, CodeRun, code(t, err))
	_, err = d.Join(t.Context(), "w", Join{Protocol: Protocol, Run: "other", Nodes: []NodeInfo{{}}})
	require.Equal(t, CodeRun, code(t, err))
	_, err = d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "other", Outbox: "o", First: 1})
	require.Equal(t, CodeRun, code(t, err))
	_, err = d.beat("w", at("stranger", 1))
	require.Equal(t, CodeRun, code(t, err), "a node that nobody knows must join again")
}

func TestOffersAreHeldToTheExperiment(t *testing.T) {
	d := newTestServer(t, nil)
	d.Progress("node_0", 80)
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	_, err = d.join("x", NodeInfo{})
	require.NoError(t, err)
	good := d.batch("w_0", 82, 2, 4)
	require.NoError(t, d.Offer(t.Context(), "w", good))
	require.NoError(t, d.Offer(t.Context(), "w", good), "again changes nothing")
	forged := d.batch("x_0", 82, 2, 4)
	forged.Node = "w_0"
	for name, c := range map[string]struct {
		offer Offer
		code  string
	}{
		"another's node":       {d.batch("x_0", 82, 2, 4), CodeRollouts},
		"this host's node":     {d.batch("node_0", 82, 2, 4), CodeRollouts},
		"a future round":       {d.batch("w_0", 83, 2, 4), CodeRollouts},
		"before its first":     {d.batch("w_0", 81, 2, 4), CodeRollouts},
		"no such round":        {d.batch("w_0", 100, 2, 4), CodeRollouts},
		"a negative round":     {Offer{Node: "w_0", Round: -1, Data: good.Data}, CodeRollouts},
		"too many rollouts":    {d.batch("w_0", 82, 3, 4), CodeRollouts},
		"too many completions": {d.batch("w_0", 82, 2, 5), CodeRollouts},
		"a forged sender":      {forged, CodeMalformed},
		"a forged round":       {Offer{Node: "w_0", Round: 82, Data: d.batch("w_0", 3, 1, 1).Data}, CodeMalformed},
		"garbage":              {Offer{Node: "w_0", Round: 82, Data: []byte("\x00")}, CodeMalformed},
		"giant":                {Offer{Node: "w_0", Round: 82, Data: make([]byte, exchange.MaxBatchBytes+1)}, CodeMalformed},
	} {
		d.later(10 * time.Second)
		require.Equal(t, c.code, code(t, d.Offer(t.Context(), "w", c.offer)), name)
	}
	require.Len(t, d.stored, 2)
	status := d.Workers()[0]
	require.Equal(t, []int64{14, 12}, []int64{status.Offered, status.Refused})
	require.NotEmpty(t, status.Reason)

	d.broken = errors.New("disk /secret/path failed")
	err = d.Offer(t.Context(), "w", good)
	require.Equal(t, CodeInternal, code(t, err))
	require.NotContains(t, err.Error(), "secret", "the worker learns nothing of paths here")
	d.broken = nil
	d.End("done", "")
	require.Equal(t, CodeEnded, code(t, d.Offer(t.Context(), "w", good)))
}

func TestAWorkerThatMostlyOffersRubbishIsNamedOnce(t *testing.T) {
	d := newTestServer(t, func(o *AdmissionOptions) { o.Trusted = true })
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	d.said()
	for range 100 {
		require.Error(t, d.Offer(t.Context(), "w", Offer{Node: "w_0", Round: 2, Data: []byte("x")}))
	}
	d.mu.Lock()
	require.Contains(t, d.told[0].Message, ". Try: swarm workers ban w")
	d.mu.Unlock()
	require.Equal(t, []string{"warning w"}, d.said())
}

func TestNobodySendsMoreThanItMay(t *testing.T) {
	d := newTestServer(t, nil)
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	offer := d.batch("w_0", 2, 1, 1)
	taken := 0
	for range 100 {
		if d.Offer(t.Context(), "w", offer) == nil {
			taken++
		}
	}
	require.Equal(t, offerBurst, taken)
	d.later(time.Second)
	require.NoError(t, d.Offer(t.Context(), "w", offer))

	big := make([]json.RawMessage, MaxDeliveryEvents)
	for i := range big {
		big[i] = json.RawMessage(`{"type":"warning","time":1}`)
	}
	events, first := 0, int64(1)
	for range 100 {
		receipt, err := d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: first, Events: big})
		if err != nil {
			require.Equal(t, CodeRate, code(t, err))
			break
		}
		if receipt.RetryAfter > 0 {
			require.Equal(t, first-1, receipt.Acked)
			break
		}
		events += len(big)
		first = receipt.Acked + 1
	}
	require.Equal(t, int(eventBurst), events)
	for range 2 * requestBurst {
		_, err = d.beat("w")
	}
	require.Equal(t, CodeRate, code(t, err))
	require.NoError(t, d.hello("other", "", ""), "others are not held up")
}

func TestABucketGivesWhatHasComeInAndNoMore(t *testing.T) {
	for _, rate := range []float64{0.1, 0.2, 0.3, 0.7, 2.5} {
		b, now, taken := newBucket(rate, 20), time.Unix(1_000_000, 0), 0.0
		for range 1000 {
			now = now.Add(time.Second)
			for range 3 {
				if b.take(now, 1) == 0 {
					taken++
				}
			}
		}
		require.InDelta(t, 20+999*rate, taken, 1, "%v a second", rate)
	}
}

// Arrivals and departures are reported to all and recorded. A worker can't repeat them without limit, nor cause as many
// database reads.
func TestNobodyComesAndGoesAllTheTime(t *testing.T) {
	d := newTestServer(t, nil)
	reads := 0
	recorded := d.o.Recorded
	d.o.Recorded = func(ctx context.Context) (map[string]int, map[string][]int, error) {
		reads++
		return recorded(ctx)
	}
	var err error
	joined := 0
	for range 3 * visitBurst {
		if _, err = d.join("w", NodeInfo{}, NodeInfo{}); err == nil {
			joined++
		}
	}
	require.Equal(t, CodeRate, code(t, err))
	require.Equal(t, visitBurst, joined)
	require.Equal(t, visitBurst, reads)
	require.NoError(t, func() error { _, err := d.beat("w"); return err }(), "it still beats")
	d.said()
	for range 100 {
		d.later(time.Second)
		if d.hello("v", "host", "") == nil {
			_, _ = d.Beat(t.Context(), "v", Beat{Protocol: Protocol, Run: "run", Left: true})
		}
	}
	said := d.said()
	require.LessOrEqual(t, len(said), 2*(visitBurst+100/5)+8, "%v", said) // plus w, which falls silent, and warnings
}

func TestDeliveriesAreTakenOnceAndInOrder(t *testing.T) {
	d := newTestServer(t, nil)
	require.NoError(t, func() error {
		_, err := d.Hello(t.Context(), "w", Hello{Protocol: Protocol, Time: unix(d.clock()) + 3600})
		return err
	}())
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	require.Contains(t, d.said(), "warning w", "a clock an hour off is told")
	deliver := func(first int64, numbers ...int) Receipt {
		delivery := Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: first}
		for _, n := range numbers {
			raw := fmt.Sprintf(`{"type":"warning","node":"w_0","time":%d,"message":"%d"}`, 1_000_000+3600-100+n, n)
			delivery.Events = append(delivery.Events, json.RawMessage(raw))
		}
		receipt, err := d.Deliver(t.Context(), "w", delivery)
		require.NoError(t, err)
		return receipt
	}
	require.Equal(t, Receipt{Acked: 3}, deliver(1, 1, 2, 3))
	require.Equal(t, Receipt{Acked: 3}, deliver(2, 2, 3))
	require.Equal(t, Receipt{Acked: 3}, deliver(5, 5), "a gap waits")
	require.Equal(t, Receipt{Acked: 5}, deliver(3, 3, 4, 5))
	require.Equal(t, Receipt{Acked: 5}, deliver(6), "nothing is a question")
	var got []string
	for i, e := range d.events["w/o"] {
		got = append(got, e.Message)
		require.InDelta(t, 1_000_000-100+i+1, e.Time, 0.01, "by the coordinator's clock")
		require.Equal(t, "w", e.Worker)
	}
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, got)

	receipt, err := d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: 6, Events: []json.RawMessage{
		json.RawMessage(`{"type":"run_ended"}`), tombstone, json.RawMessage(`{"type":"warning","time":1000001}`),
	}})
	require.NoError(t, err)
	require.Equal(t, int64(8), receipt.Acked)
	list := d.events["w/o"][5:]
	require.Equal(t, []event.Type{event.TypeRelease, event.TypeRelease, event.TypeWarning}, []event.Type{list[0].Type, list[1].Type, list[2].Type})
	require.Equal(t, int64(1), d.Workers()[0].Dropped, "a tombstone is no lie")

	d.broken = errors.New("disk full")
	_, err = d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: 9, Events: oneEvent()})
	require.Equal(t, CodeInternal, code(t, err))
	d.broken = nil
	receipt, err = d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: 9, Events: oneEvent()})
	require.NoError(t, err)
	require.Equal(t, int64(9), receipt.Acked)
	many := make([]json.RawMessage, MaxDeliveryEvents+1)
	for _, bad := range []Delivery{{Outbox: "o"}, {Outbox: "../o", First: 1}, {First: 1}, {Outbox: "o", First: 1, Events: many}} {
		bad.Protocol, bad.Run = Protocol, "run"
		_, err = d.Deliver(t.Context(), "w", bad)
		require.Equal(t, CodeMalformed, code(t, err))
	}
}

func oneEvent() []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"type":"warning","time":1}`)}
}

func TestABannedWorkerIsOutAtOnce(t *testing.T) {
	r := registry(t, t.TempDir())
	d := newTestServer(t, func(o *AdmissionOptions) { o.Registry = r })
	token, err := r.Invite("", false)
	require.NoError(t, err)
	application := Apply(token, "w")
	answer, err := d.Enrol(t.Context(), application.Enrol)
	require.NoError(t, err)
	c, err := application.Accept(answer)
	require.NoError(t, err)
	old := application.Enrol
	old.Protocol = 1
	_, err = d.Enrol(t.Context(), old)
	require.Equal(t, CodeVersion, code(t, err))
	_, err = d.Enrol(t.Context(), Apply("x", "w").Enrol)
	require.Equal(t, CodeToken, code(t, err))
	_, err = d.beat("nobody")
	require.Equal(t, CodeRevoked, code(t, err))
	require.NoError(t, d.hello(c.Worker, "desk", "p"))
	_, err = d.join("w", NodeInfo{})
	require.NoError(t, err)
	d.said()
	require.NoError(t, r.Ban("w", "lies"))
	d.review()
	d.review()
	require.ElementsMatch(t, []string{"leave w w_0", "banned w"}, d.said())
	require.Equal(t, []string{"w"}, d.expelled)
	require.Equal(t, CodeBanned, code(t, d.Offer(t.Context(), "w", d.batch("w_0", 2, 1, 1))))
	_, err = d.beat("w", at("w_0", 2))
	require.Equal(t, CodeBanned, code(t, err))
	require.Equal(t, event.WorkerBanned, d.Workers()[0].State)
	require.NoError(t, r.Unban("w"))
	require.NoError(t, d.hello("w", "desk", "p2"))
	_, err = d.join("w", NodeInfo{Name: "w_0", Rounds: 3})
	require.NoError(t, err)
	require.NoError(t, r.Revoke("w"))
	require.Equal(t, CodeRevoked, code(t, d.hello("w", "desk", "p2")), "noticed without the watch, too")
	require.Equal(t, event.WorkerRevoked, d.Workers()[0].State)
}

func TestSettledWaitsForWhoIsStillAtIt(t *testing.T) {
	d := newTestServer(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, d.Settled(ctx, time.Hour), "nobody")
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	brief, stop := context.WithTimeout(ctx, 2*settleEvery)
	require.ErrorContains(t, d.Settled(brief, time.Hour), "worker w")
	stop()
	_, err = d.Beat(ctx, "w", Beat{Protocol: Protocol, Run: "run", Nodes: []Progress{{Node: "w_0", Round: 100, State: event.StateDone}}, Pending: 3})
	require.NoError(t, err)
	require.False(t, d.settled(d.sessions["w"]), "three events are not delivered yet")
	_, err = d.Beat(ctx, "w", Beat{Protocol: Protocol, Run: "run", Nodes: []Progress{{Node: "w_0", Round: 100, State: event.StateDone}}})
	require.NoError(t, err)
	require.NoError(t, d.Settled(ctx, time.Hour))
	d.End("done", "all of it")
	require.False(t, d.settled(d.sessions["w"]), "it has not taken leave")
	d.later(time.Second)
	moved := d.moved
	for _, round := range []int{3, 100, 4, 100} {
		_, err = d.beat("w", at("w_0", round))
		require.NoError(t, err)
	}
	require.Equal(t, moved, d.moved, "to and fro is not getting on")
	roster, err := d.beat("w", Progress{Node: "w_0", Round: 100, State: event.StateDone})
	require.NoError(t, err)
	require.Equal(t, []string{"done", "all of it"}, []string{roster.Ended, roster.Message})
	d.said()
	done := make(chan error)
	go func() { done <- d.Settled(ctx, 5*time.Second) }()
	for open := true; open; {
		select {
		case err = <-done:
			open = false
		default:
			d.mu.Lock()
			d.now = d.now.Add(time.Second)
			d.mu.Unlock()
		}
	}
	require.NoError(t, err, "patience has an end")
	require.Equal(t, []string{"warning"}, d.said())
	_, err = d.Beat(ctx, "w", Beat{Protocol: Protocol, Run: "run", Left: true})
	require.NoError(t, err)
	require.NoError(t, d.Settled(ctx, time.Hour))
}

func TestAThousandWorkersAndNoMore(t *testing.T) {
	d := newTestServer(t, nil)
	for w := range MaxWorkers {
		worker := fmt.Sprintf("w%d", w)
		joined, err := d.join(worker, make([]NodeInfo, 2)...)
		require.NoError(t, err)
		require.Len(t, joined.Assignments, 2)
	}
	members, _ := d.Members()
	require.Len(t, members, 2+2*MaxWorkers)
	for len(members) < 10_000 {
		members = append(members, protocol.Member{Node: "worker-of-some-1000_12", From: 1000, Absent: true})
	}
	data, err := json.Marshal(Roster{Members: members})
	require.NoError(t, err)
	require.Less(t, len(data), MaxMessageBytes, "the roster fits a message")
	require.Equal(t, CodeFull, code(t, d.hello("one-more", "", "")))
}

func TestAnotherProgramsNodeIsNotWaitedFor(t *testing.T) {
	d := newTestServer(t, nil)
	d.Foreign("old_1", 3)
	d.Foreign("old_1", 4)
	d.Foreign("node_0", 99)
	members, _ := d.Members()
	require.Equal(t, protocol.Member{Node: "old_1", Absent: true, Trust: protocol.TrustKey}, members[2])
	require.Len(t, members, 3)
	d.Lost("node_1")
	members, _ = d.Members()
	require.Equal(t, []string{"node_0", "old_1"}, namesOf(members))
}

// A known node whose name belongs to another node doesn't keep the coordinator from starting.
func TestAWorkersNodeWithTheNameOfAnotherIsLeftOut(t *testing.T) {
	d := newTestServer(t, nil, KnownMember{Node: "Node_1", Worker: "w", From: 3}, KnownMember{Node: "w_1", Worker: "w", From: 3},
		KnownMember{Node: "w_1", Worker: "x", From: 3})
	d.sweep()
	d.mu.Lock()
	for i, line := range []string{"node Node_1 of worker w has the name of another node", "node w_1 of worker x has the name of another node"} {
		require.Contains(t, d.told[i].Message, line)
		require.Contains(t, d.told[i].Message, ". Try: on "+[]string{"w", "x"}[i]+", the same swarm join command with --fresh --node-id OTHER")
	}
	d.mu.Unlock()
	members, _ := d.Members()
	require.Equal(t, []string{"node_0", "node_1", "w_1"}, namesOf(members))
	_, err := d.join("w", NodeInfo{Name: "Node_1", Rounds: 5})
	require.Equal(t, CodeName, code(t, err))
	_, err = d.join("w", NodeInfo{Name: "other"}, NodeInfo{Name: "w_1", Rounds: 5})
	require.NoError(t, err)
}

// FuzzMessages sends untrusted messages to an admission server. Each is answered or refused.
func FuzzMessages(f *testing.F) {
	f.Add(0, []byte(`{"protocol":2,"version":"v","host":"h","time":1}`))
	f.Add(1, []byte(`{"protocol":2,"run":"run","device":"cpu","nodes":[{"model":"m"},{"name":"w_7","rounds":5}]}`))
	f.Add(2, []byte(`{"protocol":2,"run":"run","nodes":[{"node":"w_0","round":5,"state":"done"}],"left":true}`))
	f.Add(3, []byte(`{"protocol":2,"run":"run","outbox":"o","first":1,"events":[{"type":"warning","time":1},null,7]}`))
	f.Add(4, []byte(`{"version":1,"node":"w_0","round":2,"rollouts":[]}`))
	f.Add(5, []byte(`{"protocol":2,"name":"n","hash":"00","proof":"00"}`))
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		d := newTestServer(t, nil)
		_, err := d.join("w", NodeInfo{})
		require.NoError(t, err)
		switch ctx := t.Context(); kind % 6 {
		case 0:
			err = ask(ctx, data, d.Hello)
		case 1:
			err = ask(ctx, data, d.Join)
		case 2:
			err = ask(ctx, data, d.Beat)
		case 3:
			err = ask(ctx, data, d.Deliver)
		case 4:
			err = d.Offer(ctx, "w", Offer{Node: "w_0", Round: 2, Data: data})
		case 5:
			err = ask(ctx, data, func(ctx context.Context, _ string, e Enrol) (Enrolled, error) { return d.Enrol(ctx, e) })
		}
		code(t, err)
		members, _ := d.Members()
		require.Equal(t, "node_0", members[0].Node)
	})
}

func ask[Q, A any](ctx context.Context, data []byte, call func(context.Context, string, Q) (A, error)) error {
	var request Q
	if json.Unmarshal(data, &request) != nil {
		return nil
	}
	_, err := call(ctx, "w", request)
	return err
}

func BenchmarkBeat(b *testing.B) {
	d := newTestServer(b, func(o *AdmissionOptions) { o.Trusted = true })
	for w := range 1000 {
		_, err := d.join(fmt.Sprintf("w%d", w), make([]NodeInfo, 10)...)
		require.NoError(b, err)
	}
	roster, err := d.beat("w7")
	require.NoError(b, err)
	beat := Beat{Protocol: Protocol, Run: "run", Roster: roster.Version}
	for i := range 10 {
		beat.Nodes = append(beat.Nodes, at(fmt.Sprintf("w7_%d", i), 2))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Beat(b.Context(), "w7", beat); err != nil {
			b.Fatal(err)
		}
	}
}

// namesOf returns the members' nodes in order.
func namesOf(members []protocol.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Node
	}
	return names
}

// A join is answered once its assignments are on disk. If that fails, the worker is told to retry.
func TestAJoinIsKeptBeforeItIsAnswered(t *testing.T) {
	var d *testServer
	var kept []string
	var broken error
	d = newTestServer(t, func(o *AdmissionOptions) {
		o.Keep = func(context.Context) error {
			kept = append(kept, d.said()...)
			return broken
		}
	})
	join := Join{Protocol: Protocol, Run: "run", Device: "cpu", Nodes: []NodeInfo{{Name: "anna_0", Model: "m"}}}
	_, err := d.Hello(t.Context(), "anna", Hello{Protocol: Protocol, Host: "h"})
	require.NoError(t, err)
	broken = errors.New("disk full")
	_, err = d.Join(t.Context(), "anna", join)
	require.Equal(t, CodeInternal, code(t, err))
	broken = nil
	joined, err := d.Join(t.Context(), "anna", join)
	require.NoError(t, err)
	require.Equal(t, "anna_0", joined.Assignments[0].Node)
	require.Contains(t, kept, "join anna anna_0")
}
