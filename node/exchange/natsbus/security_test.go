package natsbus

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// hostile opens a worker's connection with a plain NATS client.
func hostile(t *testing.T, o *office, user, secret, name, inbox string) *nats.Conn {
	t.Helper()
	where, err := parseAddress(o.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options, err := where.security("", "")
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, nats.UserInfo(user, secret), nats.Name(name), nats.CustomInboxPrefix(inbox), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	conn, err := nats.Connect(where.servers(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// flush waits until the server has processed everything that was sent.
func flush(t *testing.T, o *office, conn *nats.Conn) {
	t.Helper()
	for _, c := range []*nats.Conn{conn, o.server.conn} {
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker can write only to the admission server: not to the stream, not to JetStream, not for others, and not through
// an answer.
func TestWorkerWritesNowhere(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	s := o.bus(t, "ada", "a").subjects
	publish(t, o.bus(t, "bob", "b"), batch("b", 0, "bob's"))
	conn := hostile(t, o, "ada", "secret of ada", "ada", inboxOf("ada"))
	query, err := json.Marshal(query{LastOne: s.rollouts(0, "b")})
	if err != nil {
		t.Fatal(err)
	}
	nobody := []byte(`{"last_by_subj":"` + s.rollouts(99, "nobody") + `"}`)
	caller := caller{worker: "ada", secret: "secret of ada"}
	reflect := func(verb, reply string, data []byte) {
		t.Helper()
		m := caller.message(verb, data)
		m.Header.Set(runHeader, "run")
		m.Reply = reply
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{
		s.rollouts(7, "victim"), s.shared(7, "victim"), s.trouble(), s.probe(), "$JS.API.STREAM.DELETE." + s.stream, "$JS.API.STREAM.PURGE." + s.stream,
		"$JS.API.STREAM.CREATE.other", s.direct(), "swarm.w.bob.beat", inboxOf("bob") + ".x", enrolSubject, whySubject,
	} {
		if err := conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		// The coordinator and JetStream answer only to the sender's inbox. Otherwise they would write to any subject
		// for the sender.
		reflect(verbRead, subject, query)
		reflect(verbRead, subject, nobody)
		reflect(verbBeat, subject, []byte("{}"))
		reflect("nonsense", subject, []byte("{}"))
	}
	flush(t, o, conn)
	if err := conn.LastError(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
		t.Errorf("the server said %v", err)
	}
	beat, err := o.uplink(t, "ada").Beat(t.Context(), membership.Beat{}) // after all of these, in the same lane
	if err != nil || beat.Version != 7 {
		t.Errorf("beat: %+v, %v", beat, err)
	}
	stream, err := o.server.js.Stream(t.Context(), s.stream)
	if err != nil {
		t.Fatalf("the stream is gone: %v", err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil || info.State.Msgs != 1 || len(info.State.Subjects) != 1 {
		t.Errorf("the stream holds %+v, %v", info.State, err)
	}
}

// A worker receives only its own answers and the announcements.
func TestWorkerHearsNothingOfOthers(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	conn := hostile(t, o, "ada", "secret of ada", "ada", inboxOf("ada"))
	heard := make(chan *nats.Msg, 64)
	for _, subject := range []string{">", inboxOf("bob") + ".>", "_INBOX_w.>", "_INBOX.>", "swarm.w.>", "swarm.w.ada.>", "swarm.run.rollouts.>", "$JS.>", "swarm.enrol", "swarm.>"} {
		if _, err := conn.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, o, conn)
	bob := o.uplink(t, "bob")
	if _, err := bob.Beat(t.Context(), membership.Beat{}); err != nil {
		t.Fatal(err)
	}
	overhearsNothing(t, o, conn, heard)
}

// overhearsNothing lets another worker share and a third one enrol. The connection must receive nothing of that.
func overhearsNothing(t *testing.T, o *office, conn *nats.Conn, heard <-chan *nats.Msg) {
	t.Helper()
	publish(t, o.bus(t, "bob", "b"), batch("b", 0, ""))
	if _, err := Enrol(t.Context(), o.invitation(t), "carol", TLSOptions{}); err != nil {
		t.Fatal(err)
	}
	flush(t, o, conn)
	select {
	case m := <-heard:
		t.Errorf("heard %s", m.Subject)
	default:
	}
}

// A client without credentials can only request them, under an unguessable name.
func TestEnrolUserMayDoNothingElse(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	nonce := strings.Repeat("0123456789abcdef", 2)
	conn := hostile(t, o, enrolUser, "", nonce, enrolInbox(nonce))
	heard := make(chan *nats.Msg, 64)
	other := enrolInbox(strings.Repeat("f", nonceDigits))
	for _, subject := range []string{">", other + ".>", "_INBOX_e.>", "swarm.>", "swarm.*.shared.>"} {
		if _, err := conn.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"swarm.w.ada.beat", "swarm.run.rollouts.0.x", "$JS.API.STREAM.NAMES", "swarm.run.want.0.a"} {
		if err := conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	// Answering an enrolment to another client's inbox would write there for the sender.
	question, err := json.Marshal(membership.Apply(o.token, "eve").Enrol)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(enrolSubject)
	m.Header.Set(protocolHeader, strconv.Itoa(membership.Protocol))
	m.Reply, m.Data = "swarm.run.rollouts.3.x", question
	if err := conn.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	flush(t, o, conn)
	overhearsNothing(t, o, conn, heard)
	if got := marks(t, join(t, o.server, "run", "reader"), 3, "x"); got[0] != "" {
		t.Errorf("stored %q", got)
	}
	where, err := parseAddress(o.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options, err := where.security("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "eve", strings.Repeat("*", nonceDigits)} {
		if conn, err := nats.Connect(where.servers(), append(options, nats.UserInfo(enrolUser, ""), nats.Name(name))...); err == nil {
			conn.Close()
			t.Errorf("name %q: taken", name)
		}
	}
}

// Invalid requests get a one-line error, and the admission server never sees them.
func TestAdmissionRefusesMalformedRequests(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	conn := hostile(t, o, "ada", "secret of ada", "ada", inboxOf("ada"))
	c := caller{conn: conn, link: newLink(), worker: "ada", secret: "secret of ada"}
	header := func(m *nats.Msg, pairs ...string) *nats.Msg {
		for i := 0; i < len(pairs); i += 2 {
			m.Header.Set(pairs[i], pairs[i+1])
		}
		return m
	}
	for name, test := range map[string]struct {
		m    *nats.Msg
		code string
	}{
		"garbage":        {c.message(verbBeat, []byte("\x00{")), membership.CodeMalformed},
		"too long":       {c.message(verbBeat, make([]byte, membership.MaxMessageBytes+1)), membership.CodeMalformed},
		"no such verb":   {c.message("shutdown", []byte("{}")), membership.CodeMalformed},
		"other protocol": {header(c.message(verbBeat, []byte("{}")), protocolHeader, "1"), membership.CodeVersion},
		"wrong secret":   {header(c.message(verbBeat, []byte("{}")), secretHeader, "x"), membership.CodeToken},
		"no node":        {header(c.message(verbOffer, nil), roundHeader, "1"), membership.CodeMalformed},
		"no round":       {header(c.message(verbOffer, nil), nodeHeader, "a", roundHeader, "-1"), membership.CodeMalformed},
		"all subjects":   {header(c.message(verbRead, []byte(`{"last_by_subj":">"}`)), runHeader, "run"), membership.CodeMalformed},
		"probe":          {header(c.message(verbRead, []byte(`{"last_by_subj":"swarm.run.probe"}`)), runHeader, "run"), membership.CodeMalformed},
		"by sequence":    {header(c.message(verbRead, []byte(`{"seq":1}`)), runHeader, "run"), membership.CodeMalformed},
		"no run":         {c.message(verbRead, []byte(`{"last_by_subj":"swarm.run.rollouts.0.a"}`)), membership.CodeMalformed},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		_, err := c.call(ctx, test.m)
		cancel()
		var refusal *membership.Refusal
		if !errors.As(err, &refusal) || refusal.Code != test.code || strings.Contains(refusal.Message, "\n") {
			t.Errorf("%s: %v, want code %s", name, err, test.code)
		}
	}
	if o.beats != 0 {
		t.Errorf("the desk saw %d beats", o.beats)
	}
}

// A certificate must be the coordinator's and valid. Otherwise the client gets a clear one-line error.
func TestCertificateIsChecked(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ServerOptions{})
	_, otherPin, err := Certificate(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := o.invitation(t)
	changed.Fingerprint = otherPin
	unpinned := o.invitation(t)
	unpinned.Fingerprint = ""
	for name, test := range map[string]struct {
		i    membership.Invitation
		want string
	}{
		"changed":  {changed, "has changed since the invitation was made. Try: ask for a new invitation (swarm workers invite)"},
		"unpinned": {unpinned, "not trusted here"},
	} {
		start := time.Now()
		_, err := Enrol(t.Context(), test.i, "ada", TLSOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: enrol: %v", name, err)
		}
		_, err = DialUplink(t.Context(), UplinkOptions{Invitation: test.i, Credentials: membership.Credentials{Worker: "ada", Secret: "secret of ada"}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: uplink: %v", name, err)
		}
		_, err = Dial(t.Context(), Options{URL: test.i.URL(), Token: o.server.Token(), Run: "run", Node: "a"})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: node: %v", name, err)
		}
		if waited := time.Since(start); waited > promptly {
			t.Errorf("%s: %v", name, waited)
		}
	}
}

// If a worker names the CA of a certificate, it needs no fingerprint.
func TestOwnCertificate(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	certificate := o.server.options.TLSConfig.Certificates[0]
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pemOf(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	i := o.invitation(t)
	i.Fingerprint = ""
	if _, err := Enrol(t.Context(), i, "ada", TLSOptions{CAFile: ca}); err != nil {
		t.Errorf("enrol: %v", err)
	}
	if _, err := Enrol(t.Context(), i, "ada", TLSOptions{CAFile: ca + ".none"}); err == nil {
		t.Error("without the file: no error")
	}
}

// Invalid bytes, silent connections and incomplete handshakes are closed, and delay no one else.
func TestStrangersOnThePort(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ServerOptions{})
	address := o.server.Addr().String()
	garbage := make([]byte, 64<<10)
	if _, err := rand.Read(garbage); err != nil {
		t.Fatal(err)
	}
	openings := map[string][]byte{
		"garbage": garbage, "plain NATS": []byte("CONNECT {\"auth_token\":\"x\"}\r\nPING\r\n"), "HTTP": []byte("GET / HTTP/1.1\r\n\r\n"),
		"silence": nil, "half a handshake": {0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
	}
	var group sync.WaitGroup
	for name, opening := range openings {
		group.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write(opening)
			if err := conn.SetReadDeadline(time.Now().Add(promptly)); err != nil {
				t.Error(err)
			}
			answer, err := io.ReadAll(bufio.NewReader(conn))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: still connected after %v", name, promptly)
			}
			if strings.Contains(string(answer), "INFO") {
				t.Errorf("%s: the server says %q before the handshake", name, answer)
			}
		})
	}
	group.Go(func() { // TLS, then silence: the authentication times out, too
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetReadDeadline(time.Now().Add(promptly)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client that says nothing is still connected after %v", promptly)
		}
	})
	if _, err := o.uplink(t, "ada").Beat(t.Context(), membership.Beat{}); err != nil {
		t.Errorf("beat meanwhile: %v", err)
	}
	group.Wait()
}

// One worker can't use up all connections.
func TestConnectionsOfOneWorkerAreBounded(t *testing.T) {
	g := &gate{workers: map[string][]uint64{}, alive: func(id uint64) bool { return id%2 == 0 }}
	taken := 0
	for id := range uint64(10 * maxConnections) {
		if g.note("ada", id) {
			taken++
		}
	}
	if len(g.workers["ada"]) > maxConnections || taken < maxConnections {
		t.Errorf("%d connections open of %d taken, at most %d are allowed", len(g.workers["ada"]), taken, maxConnections)
	}
}

// All workers together can't use up the connections either: the coordinator's own nodes need some.
func TestConnectionsOfAllWorkersAreBounded(t *testing.T) {
	open := true
	g := &gate{workers: map[string][]uint64{}, alive: func(uint64) bool { return open }}
	taken := 0
	for id := range uint64(maxClients) {
		if g.note(strconv.Itoa(int(id)/maxConnections), id) {
			taken++
		}
	}
	if taken != maxOfWorkers {
		t.Errorf("%d connections of workers are open, at most %d are allowed", taken, maxOfWorkers)
	}
	if open = false; !g.note("ada", 0) {
		t.Error("closed connections take a place")
	}
}

// Newcomers are limited per address and in total. A closed connection frees its place at once, an open one after a
// while.
func TestNewcomersAreBounded(t *testing.T) {
	gone := map[uint64]bool{}
	g := &gate{workers: map[string][]uint64{}, alive: func(id uint64) bool { return !gone[id] }}
	now, id, enrolling := time.Now(), uint64(0), map[string]int{}
	enter := func(from string) bool {
		id++
		ok := g.mayEnrol(id, from, now)
		if ok {
			enrolling[from]++
		}
		return ok
	}
	for range 10 * maxEnrolling {
		enter("192.0.2.1")
	}
	if enrolling["192.0.2.1"] != maxEnrollingOf || !enter("192.0.2.2") {
		t.Errorf("%d of one address, %d are allowed, and others beside", enrolling["192.0.2.1"], maxEnrollingOf)
	}
	gone[1] = true
	if !enter("192.0.2.1") || enter("192.0.2.1") {
		t.Error("one that is gone makes room for one")
	}
	for n := range 10 * maxEnrolling {
		enter(strconv.Itoa(n))
	}
	if len(g.enrolling) != maxEnrolling {
		t.Errorf("%d at a time, %d are allowed", len(g.enrolling), maxEnrolling)
	}
	now = now.Add(2 * enrolLife)
	if !enter("192.0.2.1") {
		t.Error("nobody may enrol later")
	}
	for address, want := range map[string]string{
		"192.0.2.1:7": "192.0.2.1", "[::ffff:192.0.2.1]:7": "192.0.2.1", "[2001:db8::1:2:3:4]:7": "2001:db8::/64", "[2001:db8::9]:8": "2001:db8::/64",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil || sourceOf(tcp) != want {
			t.Errorf("%s is of %s, %v", address, sourceOf(tcp), err)
		}
	}
}

// from dials from an address of this machine.
type from struct{ address string }

func (f from) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.address)}, Timeout: 30 * time.Second}).Dial(network, address)
}

// Anonymous connections don't block other addresses, and block their own address only while they exist.
func TestAFloodOfNewcomersKeepsNobodyOut(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	o.server.gate.mu.Lock()
	o.server.gate.life = time.Hour // long enough for a busy machine
	o.server.gate.mu.Unlock()
	where, err := parseAddress(o.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	flood := func(address string) (held []*nats.Conn) {
		options, err := where.security("", "")
		if err != nil {
			t.Fatal(err)
		}
		for n := range maxEnrollingOf + 8 {
			conn, err := nats.Connect(where.servers(), append(options, nats.UserInfo(enrolUser, ""), nats.Name(strings.Repeat("0", nonceDigits-4)+strconv.Itoa(1000+n)),
				nats.NoReconnect(), nats.SetCustomDialer(from{address}), nats.Timeout(30*time.Second))...)
			if err == nil {
				held = append(held, conn)
				t.Cleanup(conn.Close)
			}
		}
		if len(held) != maxEnrollingOf {
			t.Fatalf("%d of %s were let in, %d are allowed", len(held), address, maxEnrollingOf)
		}
		return held
	}
	flood("127.0.0.2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	busy := make(chan struct{})
	said := TLSOptions{Busy: func() { close(busy) }}
	if _, err := Enrol(ctx, o.invitation(t), "friend", TLSOptions{Busy: func() { t.Error("busy") }}); err != nil {
		t.Fatalf("a friend elsewhere: %v", err)
	}
	held := flood("127.0.0.1")
	short, end := context.WithTimeout(t.Context(), 5*time.Second)
	defer end()
	if _, err := Enrol(short, o.invitation(t), "neighbour", TLSOptions{}); !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "has its maximum of new connections") {
		t.Fatalf("a neighbor of the flood's is told %v", err)
	}
	entered := make(chan error, 1)
	go func() {
		_, err := Enrol(ctx, o.invitation(t), "neighbour", said)
		entered <- err
	}()
	<-busy
	for _, conn := range held {
		conn.Close()
	}
	if err := <-entered; err != nil {
		t.Fatalf("a neighbor of the flood's, once that is over: %v", err)
	}
}

// reader is an office that limits the bytes that its workers read.
type reader struct {
	*office
	mu    sync.Mutex
	left  int64
	drawn int64
}

func (r *reader) Drawn(_ string, bytes int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn += bytes
	if r.left -= bytes; r.left < 0 {
		return time.Hour
	}
	return 0
}

// A worker's reads count by the size of the answers, however small the requests are.
func TestReadsAreCounted(t *testing.T) {
	r := &reader{office: newOffice(t, "run"), left: 8 << 20}
	certificate, _, err := Certificate(t.TempDir(), []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	r.server = startServer(t, ServerOptions{Dir: t.TempDir(), TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}, Admit: r.admit})
	createRun(t, r.server, r.run)
	serveAdmission(t, r.server, r)
	s := r.bus(t, "ada", "a").subjects
	if err := r.server.StoreOffer(t.Context(), "run", membership.Offer{Node: "b", Data: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	conn := hostile(t, r.office, "ada", "secret of ada", "ada", inboxOf("ada"))
	question, err := json.Marshal(query{LastOne: s.rollouts(0, "b")})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := conn.SubscribeSync(inboxOf("ada") + ".x.*")
	if err != nil {
		t.Fatal(err)
	}
	const asked = 200
	received, refused := 0, 0
	for n := range asked {
		m := caller{worker: "ada", secret: "secret of ada"}.message(verbRead, question)
		m.Header.Set(runHeader, "run")
		m.Reply = inboxOf("ada") + ".x." + strconv.Itoa(n)
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("question %d: %v", n, err)
		}
		if answer.Header.Get(refusedHeader) != "" {
			refused++
			if refusal := decodeRefusal(answer.Data); refusal.Code != membership.CodeRate || refusal.RetryAfter <= 0 {
				t.Fatalf("refused: %+v", refusal)
			}
		}
		received += len(answer.Data)
	}
	t.Logf("%d questions of %d bytes drew %d MB, %d were refused; %d MB were counted", asked, len(question), received>>20, refused, r.drawn>>20)
	if received > 8<<20+(meterReads+1)<<20 || refused < asked-8-meterReads-1 || r.drawn < 8<<20 {
		t.Errorf("%d MB were drawn, 8 were allowed", received>>20)
	}
	if _, err := r.uplink(t, "ada").Beat(t.Context(), membership.Beat{}); err != nil {
		t.Errorf("who has read too much can't say that it lives: %v", err)
	}
}
