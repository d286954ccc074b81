package sharedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// book is an admission that accepts every worker and records the delivered events by number.
type book struct {
	mu      sync.Mutex
	acked   map[string]int64
	events  []string
	beats   map[string]int
	left    map[string]bool
	members []protocol.Member
	version int64
	ended   string
	banned  map[string]bool
	hosts   map[string]string // host from which each worker is connected
}

func newBook() *book {
	return &book{
		acked: map[string]int64{}, beats: map[string]int{}, left: map[string]bool{}, banned: map[string]bool{},
		hosts: map[string]string{}, members: protocol.Members("node_0"), version: 1,
	}
}

func (b *book) Enrol(context.Context, membership.Enrol) (membership.Enrolled, error) {
	return membership.Enrolled{}, membership.Refuse(membership.CodeToken, "a folder needs no enrolment")
}

func (b *book) Hello(_ context.Context, worker string, hello membership.Hello) (membership.Welcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if host := b.hosts[worker]; host != "" && host != hello.Host {
		return membership.Welcome{}, membership.Refuse(membership.CodeName, "worker %s is already connected from %s", worker, host)
	}
	b.hosts[worker] = hello.Host
	if b.banned[worker] {
		return membership.Welcome{}, membership.Refuse(membership.CodeBanned, "worker %s is banned", worker)
	}
	w := testWelcome()
	w.Round = 7
	return w, nil
}

func (b *book) Join(_ context.Context, worker string, join membership.Join) (membership.Joined, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var j membership.Joined
	for i := range join.Nodes {
		node := fmt.Sprintf("%s_%d", worker, i)
		j.Assignments = append(j.Assignments, membership.NodeAssignment{Node: node, From: 9})
		b.members = append(b.members, protocol.Member{Node: node, From: 9})
	}
	b.version++
	j.Roster = membership.Roster{Version: b.version, Members: b.members}
	return j, nil
}

func (b *book) Beat(_ context.Context, worker string, beat membership.Beat) (membership.Roster, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.banned[worker] {
		return membership.Roster{}, membership.Refuse(membership.CodeBanned, "worker %s is banned", worker)
	}
	b.beats[worker]++
	b.left[worker] = beat.Left
	r := membership.Roster{Version: b.version, Ended: b.ended}
	if beat.Roster != b.version {
		r.Members = b.members
	}
	return r, nil
}

func (b *book) Deliver(_ context.Context, worker string, d membership.Delivery) (membership.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := worker + "/" + d.Outbox
	for i, e := range d.Events {
		if n := d.First + int64(i); n == b.acked[key]+1 {
			b.acked[key] = n
			b.events = append(b.events, string(e))
		}
	}
	return membership.Receipt{Acked: b.acked[key]}, nil
}

func (b *book) Offer(context.Context, string, membership.Offer) error { return errors.New("not used") }

func (b *book) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// serveAdmission runs an admission server until the test ends or stop is called.
func serveAdmission(t *testing.T, dir string, admission membership.Admission, o ServeOptions) (stop func()) {
	t.Helper()
	if o.Poll == 0 {
		o.Poll = 2 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ServeAdmission(ctx, dir, testRun, admission, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, shared, worker, state string) *uplink {
	t.Helper()
	u, err := DialUplink(t.Context(), UplinkOptions{Dir: shared, Experiment: "exp", Worker: worker, State: state, Poll: 5 * time.Millisecond})
	require.NoError(t, err)
	up := u.(*uplink)
	up.every = 5 * time.Millisecond
	return up
}

func sharedOf(dir string) string { return filepath.Dir(filepath.Dir(dir)) }

// deliverAll sends numbered events one delivery at a time, some of them twice.
func deliverAll(t *testing.T, u membership.Uplink, outbox string, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		d := membership.Delivery{Protocol: membership.Protocol, Run: testRun, Outbox: outbox, First: n,
			Events: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}}
		for range 1 + n%2 {
			r, err := u.Deliver(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, n, r.Acked)
		}
	}
}

func requireEvents(t *testing.T, b *book, n int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.events, n)
	for i, e := range b.events {
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, i+1), e)
	}
}

// A worker joins, beats, delivers and leaves through a badly synced folder, while coordinator and worker restart. The
// admission receives every event once, in order, and no message is left in the folder.
func TestWorkerThroughSyncedFolder(t *testing.T) {
	for seed := range schedules(1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSynced(t, seed, 2)
			admission := newBook()
			require.NoError(t, Announce(s.folder(0), testWelcome()))
			s.run()
			stop := serveAdmission(t, s.folder(0), admission, ServeOptions{})
			state := quickDir(t)
			u := dial(t, s.replicas[1], "ann", state)
			w, err := u.Hello(t.Context(), membership.Hello{Protocol: membership.Protocol})
			require.NoError(t, err)
			require.Equal(t, testRun, w.Run)
			require.Equal(t, 7, w.Round)
			j, err := u.Join(t.Context(), membership.Join{Protocol: membership.Protocol, Run: testRun, Nodes: make([]membership.NodeInfo, 2)})
			require.NoError(t, err)
			require.Equal(t, "ann_1", j.Assignments[1].Node)
			r, err := u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
			require.NoError(t, err)
			require.Len(t, r.Members, 3)
			deliverAll(t, u, "o", 1, 4)

			stop()
			serveAdmission(t, s.folder(0), admission, ServeOptions{})
			deliverAll(t, u, "o", 5, 8)
			admission.set(func() {
				admission.members = append(admission.members, protocol.Member{Node: "later"})
				admission.version++
			})
			poll(t, func() bool {
				r, err := u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun, Roster: r.Version})
				return err == nil && len(r.Members) == 4
			})

			again := dial(t, s.replicas[1], "ann", state)
			require.Greater(t, again.session, u.session)
			_, err = again.Hello(t.Context(), membership.Hello{Protocol: membership.Protocol})
			require.NoError(t, err)
			deliverAll(t, again, "o", 9, 12)
			requireEvents(t, admission, 12)
			admission.set(func() { admission.ended = "done" })
			poll(t, func() bool {
				r, err := again.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
				return err == nil && r.Ended == "done"
			})
			poll(t, func() bool {
				_, err := again.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
				return err == nil && letters(t, s.folder(0), "ann", down) <= keepBeats+keepReplies && letters(t, s.folder(1), "ann", up) <= keepBeats
			})
			_, err = again.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun, Left: true})
			require.NoError(t, err)
			poll(t, func() bool { admission.mu.Lock(); defer admission.mu.Unlock(); return admission.left["ann"] })
			requireEvents(t, admission, 12)
		})
	}
}

// letters counts a worker's readable messages, copies once.
func letters(t *testing.T, dir, worker, side string) int {
	all, err := newMailbox(baseOf(dir), testRun, worker, side).letters()
	require.NoError(t, err)
	stems := map[string]bool{}
	for _, l := range all {
		stems[l.stem] = true
	}
	return len(stems)
}

func poll(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		require.True(t, time.Now().Before(deadline))
		require.NoError(t, sleep(t.Context(), 2*time.Millisecond))
	}
}

// Refusals reach the worker, for requests and for beats.
func TestRefusalsArrive(t *testing.T) {
	dir := newFolder(t)
	admission := newBook()
	serveAdmission(t, dir, admission, ServeOptions{})
	u := dial(t, sharedOf(dir), "bob", "")
	_, err := u.Hello(t.Context(), membership.Hello{Protocol: membership.Protocol})
	require.NoError(t, err)
	_, err = u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
	require.NoError(t, err)
	admission.set(func() { admission.banned["bob"] = true })
	var refusal *membership.Refusal
	_, err = u.Hello(t.Context(), membership.Hello{Protocol: membership.Protocol})
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, membership.CodeBanned, refusal.Code)
	poll(t, func() bool {
		_, err := u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
		return errors.As(err, &refusal)
	})
	large := membership.Delivery{Events: []json.RawMessage{json.RawMessage(`"` + string(make([]byte, 0)) + fmt.Sprintf("%01048577d", 0) + `"`)}}
	_, err = u.Deliver(t.Context(), large)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, membership.CodeMalformed, refusal.Code)
}

// A worker that stops writing becomes silent for the admission server. A beat from before the server's start does not
// count as a sign of life.
func TestSilentWorker(t *testing.T) {
	dir := newFolder(t)
	admission := newBook()
	stop := serveAdmission(t, dir, admission, ServeOptions{Silence: 30 * time.Millisecond})
	u := dial(t, sharedOf(dir), "cat", "")
	_, err := u.Hello(t.Context(), membership.Hello{Protocol: membership.Protocol})
	require.NoError(t, err)
	_, err = u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
	require.NoError(t, err)
	quiet := func() int {
		before := -1
		now := func() int { admission.mu.Lock(); defer admission.mu.Unlock(); return admission.beats["cat"] }
		poll(t, func() bool {
			was := before
			before = now()
			_ = sleep(t.Context(), 40*time.Millisecond)
			return was == before
		})
		return before
	}
	n := quiet()
	require.Positive(t, n)
	stop()
	serveAdmission(t, dir, admission, ServeOptions{Silence: 30 * time.Millisecond})
	require.Equal(t, n, quiet(), "a beat of another day")
	u.beaten = time.Time{}
	_, err = u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
	require.NoError(t, err)
	poll(t, func() bool { admission.mu.Lock(); defer admission.mu.Unlock(); return admission.beats["cat"] > n })
	u.silence = 0
	_, err = u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol, Run: testRun})
	require.ErrorContains(t, err, "nothing new from the coordinator")
}

// While a worker's first process is active, a second one is refused. Once the first is silent, the second replaces it.
func TestTwoProcessesOfOneWorker(t *testing.T) {
	dir := newFolder(t)
	admission := newBook()
	serveAdmission(t, dir, admission, ServeOptions{Silence: 6 * time.Second})
	first := dial(t, sharedOf(dir), "dan", "")
	hello := membership.Hello{Protocol: membership.Protocol, Host: "one"}
	_, err := first.Hello(t.Context(), hello)
	require.NoError(t, err)
	beat := membership.Beat{Protocol: membership.Protocol, Run: testRun}
	_, err = first.Beat(t.Context(), beat)
	require.NoError(t, err)
	second := dial(t, sharedOf(dir), "dan", t.TempDir())
	hello.Host = "two"
	var refusal *membership.Refusal
	for n := range int64(3) {
		_, err = second.Hello(t.Context(), hello)
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, membership.CodeName, refusal.Code)
		_, err = first.Beat(t.Context(), beat)
		require.NoError(t, err)
		deliverAll(t, first, "o", n+1, n+1)
	}
	admission.set(func() { admission.hosts["dan"] = "" }) // it fell silent
	_, err = second.Hello(t.Context(), hello)
	require.NoError(t, err)
	deliverAll(t, second, "o", 4, 5)
	requireEvents(t, admission, 5)
}

// If the experiment is not in the folder, the error lists those that are.
func TestDialWrongExperiment(t *testing.T) {
	dir := newFolder(t)
	shared := sharedOf(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var log logLines
	_, err := DialUplink(ctx, UplinkOptions{Dir: shared, Experiment: "other", Worker: "w", Logger: log.logger()})
	require.ErrorContains(t, err, "experiment other is not in "+shared+" (there are exp)")
	require.Equal(t, 1, log.count("waiting for the experiment"))
	require.NoError(t, os.Rename(dir, filepath.Join(shared, "experiments", "renamed")))
	_, err = DialUplink(t.Context(), UplinkOptions{Dir: shared, Experiment: "renamed", Worker: "w"})
	require.ErrorContains(t, err, "belongs to experiment exp, not renamed")
	_, err = DialUplink(t.Context(), UplinkOptions{Dir: shared, Experiment: "exp", Worker: "a/b"})
	require.ErrorContains(t, err, "is not a valid name")
	_, err = DialUplink(t.Context(), UplinkOptions{Dir: filepath.Join(shared, "away"), Experiment: "exp", Worker: "w"})
	require.ErrorContains(t, err, "is missing")
}

// The newest description counts. An unchanged description is not written again.
func TestAnnounceAgain(t *testing.T) {
	dir := newFolder(t)
	require.NoError(t, Announce(dir, testWelcome()))
	w, n, err := description(baseOf(dir))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, testRun, w.Run)
	next := testWelcome()
	next.Run = "run-2"
	require.NoError(t, Announce(dir, next))
	require.NoError(t, os.WriteFile(filepath.Join(dir, base, descriptionStem+"-00000009-5-"+hashOf([]byte("whole"))+".json"), []byte("half"), 0o600))
	w, n, err = description(baseOf(dir))
	require.NoError(t, err)
	require.Equal(t, 9, n)
	require.Equal(t, "run-2", w.Run)
}
