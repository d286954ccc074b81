package natsbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Users of a cluster: the coordinator, ada, who wants to join, and eve, a worker who listens. With rights, each user
// has the permissions in docs/WORKERS.md. Without rights, the account is open to all of them.
func sharedCluster(t *testing.T, rights bool) string {
	permissions := func(worker string) string {
		if !rights {
			return ""
		}
		return fmt.Sprintf(`permissions {
			publish: ["swarm.enrol", "swarm.w.%[1]s.>", "swarm.*.want.*.*"]
			subscribe: ["swarm.*.shared.>", "_INBOX_w.%[1]s.>", "_INBOX_e.>"] }`, worker)
	}
	return fmt.Sprintf(`
		listen: "127.0.0.1:-1"
		max_payload: 9MB
		jetstream { store_dir: %q, max_file_store: 500GB }
		authorization { users [
			{ user: coordinator, password: c }
			{ user: ada, password: a, %s }
			{ user: eve, password: e, %s }
		] }`, t.TempDir(), permissions("ada"), permissions("eve"))
}

// ear records every message that it receives.
type ear struct {
	mu   sync.Mutex
	all  []*nats.Msg
	conn *nats.Conn
}

func listen(t *testing.T, url string) *ear {
	t.Helper()
	e := &ear{}
	conn, err := nats.Connect(url, nats.CustomInboxPrefix(inboxOf("eve")), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	e.conn = conn
	for _, subject := range []string{
		">", "_INBOX_e.>", "swarm.*.shared.>", "swarm.enrol", "swarm.>", "swarm.w.ada.>", "_INBOX_w.ada.>", "_INBOX_w.>", "$JS.>",
	} {
		if _, err := conn.Subscribe(subject, e.hear); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *ear) hear(m *nats.Msg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, m)
}

// heard returns all received messages as text, headers included.
func (e *ear) heard(t *testing.T) (text string, questions [][]byte) {
	t.Helper()
	if err := e.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.all {
		text += fmt.Sprintf("%s %v %s\n", m.Subject, m.Header, m.Data)
		if m.Subject == enrolSubject {
			questions = append(questions, m.Data)
		}
	}
	return text, questions
}

// An eavesdropper on an enrolment finds neither token nor secret in it, and gains nothing by replaying it.
func TestAnEavesdropperGetsNothingOfAnEnrolment(t *testing.T) {
	for name, rights := range map[string]bool{"a worker's rights": true, "an open account": false} {
		t.Run(name, func(t *testing.T) {
			hub := natsServer(t, sharedCluster(t, rights))
			o := newOffice(t, "run")
			serveAdmission(t, startExternal(t, o, as(hub, "coordinator:c")), o)
			eve := listen(t, as(hub, "eve:e"))
			invitation, err := membership.ParseInvitation("nats://" + hub.Addr().String() + "#" + o.token)
			if err != nil {
				t.Fatal(err)
			}
			invitation.Hosts[0] = "ada:a@" + invitation.Hosts[0]
			credentials, err := Enrol(t.Context(), invitation, "ada", TLSOptions{})
			if err != nil || credentials.Worker != "ada" {
				t.Fatalf("enrol: %+v, %v", credentials, err)
			}
			if rights { // with these permissions, eve can't receive its requests, which carry the secret
				u, err := DialUplink(t.Context(), UplinkOptions{Invitation: invitation, Credentials: credentials})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := u.Beat(t.Context(), membership.Beat{Protocol: membership.Protocol}); err != nil {
					t.Error(err)
				}
				_ = u.Close()
			}
			await(t, "the answer in eve's ear", func() bool { text, _ := eve.heard(t); return strings.Contains(text, `"worker":"ada"`) })
			text, questions := eve.heard(t)
			for what, secret := range map[string]string{"token": o.token, "secret": credentials.Secret} {
				if strings.Contains(text, secret) {
					t.Errorf("the %s was heard: %s", what, text)
				}
			}
			if rights == (len(questions) > 0) {
				t.Fatalf("heard %d questions", len(questions))
			}
			for _, question := range questions {
				replay(t, o, eve, question)
			}
		})
	}
}

// replay repeats another client's request.
func replay(t *testing.T, o *office, eve *ear, question []byte) {
	t.Helper()
	nonce := strings.Repeat("e", nonceDigits)
	answers, err := eve.conn.SubscribeSync(enrolInbox(nonce) + ".x")
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(enrolSubject)
	m.Header.Set(protocolHeader, fmt.Sprint(membership.Protocol))
	m.Reply, m.Data = enrolInbox(nonce)+".x", question
	if err := eve.conn.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	answer, err := answers.NextMsg(soon)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Worker, Secret string }
	if err := json.Unmarshal(answer.Data, &got); err != nil || got.Worker != "ada" || got.Secret != "" {
		t.Errorf("the replayer got %s", answer.Data)
	}
	entries, err := o.registry.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 { // the invitation and ada
		t.Errorf("a replay made a worker: %+v", entries)
	}
	var heard membership.Enrol
	if err := json.Unmarshal(question, &heard); err != nil {
		t.Fatal(err)
	}
	for _, guess := range []string{heard.Hash, heard.Proof, ""} {
		if o.admit("ada", guess) == nil {
			t.Errorf("what was heard is a secret: %q", guess)
		}
	}
}

// A client of another protocol version gets a one-line error. The coordinator logs it too, but rarely.
func TestAnotherProtocolIsToldOnBothSides(t *testing.T) {
	var log lockedBuffer
	o := openOffice(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	conn := hostile(t, o, "ada", "secret of ada", "ada", inboxOf("ada"))
	c := caller{conn: conn, link: newLink(), worker: "ada", secret: "secret of ada"}
	for range 3 {
		m := c.message(verbBeat, []byte("{}"))
		m.Header.Set(protocolHeader, "1")
		_, err := c.call(t.Context(), m)
		var refusal *membership.Refusal
		if !errors.As(err, &refusal) || refusal.Code != membership.CodeVersion || !strings.Contains(err.Error(), "the same version of swarm") {
			t.Errorf("the worker is told %v", err)
		}
	}
	o.server.Shutdown()
	if n := strings.Count(log.String(), "worker ada was refused"); n != 1 {
		t.Errorf("the coordinator's log tells it %d times: %s", n, log.String())
	}
}

// FuzzEnrolled: no forged answer makes the applicant a worker.
func FuzzEnrolled(f *testing.F) {
	application := membership.Apply("token", "ann")
	f.Add([]byte(`{"worker":"ann","proof":""}`))
	f.Add([]byte(`{"worker":"ann","secret":"x"}`))
	f.Add([]byte("no JSON"))
	f.Fuzz(func(t *testing.T, data []byte) {
		answer, err := decodeEnrolled(data)
		if err != nil {
			return
		}
		if c, err := application.Accept(answer); err == nil {
			t.Errorf("%s: %+v", data, c)
		}
	})
}
