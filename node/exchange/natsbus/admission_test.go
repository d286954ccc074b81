package natsbus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/exchangetest"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// office is an Admission that accepts its workers' requests and knows their secrets.
type office struct {
	server *Server
	run    string

	mu     sync.Mutex
	refuse map[string]*membership.Refusal // by worker
	offers func(worker string, offer membership.Offer) error
	block  chan struct{} // while it is open, beats block
	beats  int

	registry *membership.Registry // its workers are accepted, in addition to workers with the tests' secrets
	token    string
}

func newOffice(t testing.TB, run string) *office {
	t.Helper()
	registry, err := membership.OpenRegistry(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	token, err := registry.Invite("", false)
	if err != nil {
		t.Fatal(err)
	}
	return &office{run: run, refuse: map[string]*membership.Refusal{}, registry: registry, token: token}
}

func (o *office) admit(worker, secret string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if secret != "secret of "+worker && o.registry.Check(worker, secret) != nil {
		return membership.Refuse(membership.CodeToken, "worker %s: wrong secret. Try: swarm join again with an invitation", worker)
	}
	if refusal := o.refuse[worker]; refusal != nil {
		return refusal
	}
	return nil
}

func (o *office) shutOut(worker, code, line string) {
	o.mu.Lock()
	o.refuse[worker] = membership.Refuse(code, "%s", line)
	o.mu.Unlock()
	o.server.Disconnect(worker)
}

func (o *office) Enrol(_ context.Context, enrol membership.Enrol) (membership.Enrolled, error) {
	return o.registry.Enrol(enrol)
}

func (o *office) Hello(context.Context, string, membership.Hello) (membership.Welcome, error) {
	return membership.Welcome{Protocol: membership.Protocol, Run: o.run}, nil
}

func (o *office) Join(context.Context, string, membership.Join) (membership.Joined, error) {
	return membership.Joined{Assignments: []membership.NodeAssignment{{Node: "a", From: 3}}}, nil
}

func (o *office) Beat(ctx context.Context, worker string, _ membership.Beat) (membership.Roster, error) {
	o.mu.Lock()
	o.beats++
	block := o.block
	o.mu.Unlock()
	if block != nil && worker == "slow" {
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
	return membership.Roster{Version: 7}, nil
}

func (o *office) Deliver(_ context.Context, _ string, d membership.Delivery) (membership.Receipt, error) {
	return membership.Receipt{Acked: d.First + int64(len(d.Events)) - 1}, nil
}

func (o *office) Offer(ctx context.Context, worker string, offer membership.Offer) error {
	if o.offers != nil {
		if err := o.offers(worker, offer); err != nil {
			return err
		}
	}
	o.mu.Lock()
	run := o.run
	o.mu.Unlock()
	return o.server.StoreOffer(ctx, run, offer)
}

// openOffice starts a server with TLS and serves an admission on it.
func openOffice(t testing.TB, options ServerOptions) *office {
	t.Helper()
	o := newOffice(t, "run")
	certificate, _, err := Certificate(t.TempDir(), []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	options.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	options.Admit = o.admit
	o.server = startServer(t, options)
	createRun(t, o.server, o.run)
	serveAdmission(t, o.server, o)
	return o
}

func serveAdmission(t testing.TB, server *Server, admission membership.Admission) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeAdmission(ctx, admission) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (o *office) invitation(t testing.TB) membership.Invitation {
	t.Helper()
	i, err := membership.ParseInvitation(o.server.URL() + "#" + o.token)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// bus joins a node of a worker.
func (o *office) bus(t testing.TB, worker, node string) *Bus {
	t.Helper()
	return workerBus(t, o.server.URL(), o.run, worker, node)
}

func workerBus(t testing.TB, url, run, worker, node string) *Bus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	b, err := Dial(ctx, Options{URL: url, Token: "secret of " + worker, Run: run, Node: node, Worker: worker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (o *office) uplink(t testing.TB, worker string) membership.Uplink {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	u, err := DialUplink(ctx, UplinkOptions{Invitation: o.invitation(t), Credentials: membership.Credentials{Worker: worker, Secret: "secret of " + worker}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// A worker's node, over TLS and with offers, keeps the contract of an exchange.
func TestConformanceOfWorkers(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm {
		createRun(t, o.server, t.Name())
		o.mu.Lock()
		o.run = t.Name()
		o.mu.Unlock()
		return &workerSwarm{natsSwarm{server: o.server, run: t.Name()}}
	})
}

// workerSwarm is a run in which workers own all nodes.
type workerSwarm struct{ natsSwarm }

func (s *workerSwarm) Join(t *testing.T, node string) exchange.Exchange {
	return workerBus(t, s.server.URL(), s.run, "worker", node)
}

func TestUplinkCarriesRequests(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	credentials, err := Enrol(ctx, o.invitation(t), "ada", TLSOptions{})
	if err != nil || credentials.Worker != "ada" || o.registry.Check("ada", credentials.Secret) != nil {
		t.Fatalf("enrol: %+v, %v", credentials, err)
	}
	u := o.uplink(t, "ada")
	if welcome, err := u.Hello(ctx, membership.Hello{Protocol: membership.Protocol}); err != nil || welcome.Run != "run" {
		t.Errorf("hello: %+v, %v", welcome, err)
	}
	if joined, err := u.Join(ctx, membership.Join{}); err != nil || len(joined.Assignments) != 1 || joined.Assignments[0].From != 3 {
		t.Errorf("join: %+v, %v", joined, err)
	}
	if roster, err := u.Beat(ctx, membership.Beat{}); err != nil || roster.Version != 7 {
		t.Errorf("beat: %+v, %v", roster, err)
	}
	receipt, err := u.Deliver(ctx, membership.Delivery{First: 5, Events: []json.RawMessage{[]byte("{}")}})
	if err != nil || receipt.Acked != 5 {
		t.Errorf("deliver: %+v, %v", receipt, err)
	}
}

func TestEnrolRefused(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	i := o.invitation(t)
	i.Token = "guessed"
	_, err := Enrol(t.Context(), i, "mallory", TLSOptions{})
	var refusal *membership.Refusal
	if !errors.As(err, &refusal) || refusal.Code != membership.CodeToken || !strings.Contains(err.Error(), "Try:") {
		t.Errorf("got %v", err)
	}
}

// A worker that has wrong credentials or is banned learns why at once, and does not retry forever.
func TestWorkerTurnedAway(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	o.refuse["bob"] = membership.Refuse(membership.CodeBanned, "worker bob is banned: spam")
	for _, test := range []struct{ worker, secret, want string }{
		{"ada", "guessed", "wrong secret"},
		{"ada", "", "wrong secret"},
		{"bob", "secret of bob", "banned: spam"},
	} {
		start := time.Now()
		_, err := Dial(t.Context(), Options{URL: o.server.URL(), Token: test.secret, Run: "run", Node: "a", Worker: test.worker})
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, exchange.ErrClosed) {
			t.Errorf("%s's node: %v", test.worker, err)
		}
		_, err = DialUplink(t.Context(), UplinkOptions{Invitation: o.invitation(t), Credentials: membership.Credentials{Worker: test.worker, Secret: test.secret}})
		var refusal *membership.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.worker, err)
		}
		if waited := time.Since(start); waited > promptly {
			t.Errorf("%s: told after %v", test.worker, waited)
		}
	}
}

// A worker that is banned while it waits at a barrier, offers or beats gets that error from each of these calls.
func TestBannedWhileConnected(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ServerOptions{})
	b, u := o.bus(t, "ada", "a"), o.uplink(t, "ada")
	publish(t, b, batch("a", 0, "before"))
	gathered := make(chan error, 1)
	go func() {
		_, err := b.Gather(t.Context(), 0, []string{"dead"}, exchange.Barrier{Deadline: time.Hour, Limit: time.Hour})
		gathered <- err
	}()
	o.shutOut("ada", membership.CodeBanned, "worker ada is banned: poison")
	check := func(what string, err error) {
		t.Helper()
		var refusal *membership.Refusal
		if !errors.As(err, &refusal) || refusal.Code != membership.CodeBanned || !strings.Contains(err.Error(), "poison") {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case err := <-gathered:
		check("gather", err)
		if !errors.Is(err, exchange.ErrClosed) {
			t.Errorf("gather: %v is not final", err)
		}
	case <-time.After(soon):
		t.Fatal("gather still waits")
	}
	check("publish", b.Publish(t.Context(), batch("a", 1, "after")))
	for start := time.Now(); ; {
		_, err := u.Beat(t.Context(), membership.Beat{})
		var refusal *membership.Refusal
		if errors.As(err, &refusal) || time.Since(start) > soon {
			check("beat", err)
			break
		}
	}
}

// A refusal of the Admission comes back as ErrRefused with the reason. The next batch is checked again.
func TestOfferRefused(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	tries := 0
	o.offers = func(_ string, offer membership.Offer) error {
		switch tries++; {
		case offer.Round == 1:
			return membership.Refuse(membership.CodeRollouts, "9 rollouts, but the experiment has 8 a round")
		case offer.Round == 2 && tries < 4:
			return membership.Refuse(membership.CodeRate, "too fast")
		case offer.Round == 3:
			return errors.New("a disk is full")
		}
		return nil
	}
	b := o.bus(t, "ada", "a")
	publish(t, b, batch("a", 0, "zero"))
	if err := b.Publish(t.Context(), batch("a", 1, "one")); !errors.Is(err, exchange.ErrRefused) || !strings.Contains(err.Error(), "9 rollouts") {
		t.Errorf("refused: %v", err)
	}
	publish(t, b, batch("a", 2, "two"))
	if tries != 4 {
		t.Errorf("offered %d times, want the refused one and three of the one that came too fast", tries)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.Publish(ctx, batch("a", 3, "three")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("the coordinator's own trouble: %v", err)
	}
	if got := strings.Join(marks(t, join(t, o.server, "run", "reader"), 2, "a"), ""); got != "two" {
		t.Errorf("found %q", got)
	}
}

// A worker whose requests block in the Admission delays no other worker.
func TestSlowAdmissionHoldsUpNobodyElse(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	o.block = make(chan struct{})
	slow, quick := o.uplink(t, "slow"), o.uplink(t, "quick")
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	for range 3 * laneWaiting {
		hanging.Go(func() { _, _ = slow.Beat(ctx, membership.Beat{}) })
	}
	var refusal *membership.Refusal
	for start := time.Now(); refusal == nil; { // its lane is full
		within, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := slow.Beat(within, membership.Beat{})
		end()
		if errors.As(err, &refusal) && refusal.Code != membership.CodeRate {
			t.Fatal(err)
		}
		if time.Since(start) > soon {
			t.Fatal("a lane has no end")
		}
	}
	if _, err := quick.Beat(t.Context(), membership.Beat{}); err != nil {
		t.Errorf("another worker: %v", err)
	}
	publish(t, join(t, o.server, "run", "local"), batch("local", 0, ""))
	cancel()
	close(o.block)
	hanging.Wait()
}

// If a coordinator restarts on its port, connected workers reconnect by themselves.
func TestRestartWithWorkers(t *testing.T) {
	t.Parallel()
	dir, certificates := t.TempDir(), t.TempDir()
	o := newOffice(t, "run")
	start := func(listen string) *Server {
		certificate, _, err := Certificate(certificates, []string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		server := startServer(t, ServerOptions{Dir: dir, Listen: listen, Admit: o.admit, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}})
		createRun(t, server, "run")
		return server
	}
	o.server = start("")
	address := o.server.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- o.server.ServeAdmission(ctx, o) }()
	a, reader, u := o.bus(t, "ada", "a"), o.bus(t, "bob", "reader"), o.uplink(t, "ada")
	publish(t, a, batch("a", 0, "before"))
	gathered := make(chan error, 1)
	go func() {
		got, err := reader.Gather(t.Context(), 1, []string{"a"}, exchange.Barrier{Deadline: soon, Limit: soon})
		if err == nil && got[0].Rollouts[0].Question != "after" {
			err = errors.New("another batch")
		}
		gathered <- err
	}()
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	o.server.Shutdown()
	o.server = start(address)
	serveAdmission(t, o.server, o)
	publish(t, a, batch("a", 1, "after"))
	if err := <-gathered; err != nil {
		t.Errorf("gather over the restart: %v", err)
	}
	for begin := time.Now(); ; {
		_, err := u.Beat(t.Context(), membership.Beat{})
		if err == nil {
			break
		}
		if time.Since(begin) > soon {
			t.Fatalf("beat over the restart: %v", err)
		}
	}
}
