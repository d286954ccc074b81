package natsbus

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

func FuzzQuery(f *testing.F) {
	s, err := newSubjects("run")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"multi_last":["swarm.run.rollouts.0.a"],"seq":3,"max_bytes":99999999999}`))
	f.Add([]byte(`{"next_by_subj":"swarm.run.rollouts.*.a","batch":1000000}`))
	f.Add([]byte(`{"last_by_subj":">"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := decodeQuery(data, s)
		if err != nil {
			return
		}
		for _, subject := range append(q.Last, q.LastOne, q.Next) {
			if subject != "" && (!strings.HasPrefix(subject, "swarm.run.rollouts.") || strings.Count(subject, ".") != 4 || strings.Contains(subject, ">")) {
				t.Errorf("%s: reads %q", data, subject)
			}
		}
		if q.Batch > readBatches || q.MaxBytes > readBytes || q.MaxBytes < 1 || len(q.Last) > readSubjects {
			t.Errorf("%s: unbounded %+v", data, q)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add("204", "3", "7", "swarm.run.rollouts.0.a", []byte("{}"))
	f.Add("", "", "18446744073709551616", "", []byte{})
	f.Add("999", "-1", "", "x", []byte("\x00"))
	f.Fuzz(func(t *testing.T, status, pending, sequence, subject string, data []byte) {
		m := nats.NewMsg("x")
		m.Data = data
		for name, value := range map[string]string{statusHeader: status, pendingHeader: pending, lastSequenceHeader: sequence, subjectHeader: subject} {
			m.Header.Set(name, value)
		}
		found, left, err := parseAnswer(m)
		if left < 0 || err != nil && found != nil {
			t.Errorf("%+v, %d, %v", found, left, err)
		}
		m.Header.Set(refusedHeader, "1")
		if _, _, err := parseAnswer(m); err == nil || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("refusal: %v", err)
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add("a.b")
	f.Add("=2E")
	f.Fuzz(func(t *testing.T, text string) {
		if name, ok := untoken(text); ok && token(name) != text {
			t.Errorf("%q is the token of %q, whose token is %q", text, name, token(name))
		}
		if text == "" || len(text) > maxNameBytes {
			return
		}
		if name, ok := untoken(token(text)); !ok || name != text {
			t.Errorf("%q comes back as %q", text, name)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add("tls://127.0.0.1:4222?fp=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("nats://user:password@a:1,nats://b:2")
	f.Add("tls://a?handshake=later")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		again, err := parseAddress(a.servers())
		if err != nil || again.servers() != a.servers() || len(a.hosts) == 0 {
			t.Errorf("%q: %+v becomes %+v, %v", text, a, again, err)
		}
		if _, err := a.security("", ""); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzRequests sends arbitrary data to the admission server's verbs. It must answer or refuse, and never panic.
func FuzzRequests(f *testing.F) {
	f.Add("beat", []byte(`{"protocol":2}`), "a", "1")
	f.Add("offer", []byte(`{"version":1,"node":"a","round":1}`), "a", "1")
	f.Add("deliver", []byte(`{"events":[1]}`), "", "x")
	f.Add("join", bytes.Repeat([]byte("["), 100), "", "")
	o := newOffice(f, "run")
	o.offers = func(string, membership.Offer) error { return membership.Refuse(membership.CodeRollouts, "no") }
	d := &admissionRequests{admission: o}
	f.Fuzz(func(t *testing.T, verb string, data []byte, node, round string) {
		m := nats.NewMsg("x")
		m.Data = data
		m.Header.Set(nodeHeader, node)
		m.Header.Set(roundHeader, round)
		answer, err := d.handle(t.Context(), "ada", verb, m)
		if err != nil {
			return
		}
		if _, err := json.Marshal(answer); err != nil {
			t.Errorf("%s: an answer that can't be sent: %v", verb, err)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add("_INBOX_w.ada.x.y", "ada")
	f.Add("_INBOX_w.ada.>", "ada")
	f.Add("_INBOX_w.ada..x", "ada")
	f.Fuzz(func(t *testing.T, reply, worker string) {
		if answerable(reply, inboxOf(worker)) && (strings.ContainsAny(strings.TrimPrefix(reply, inboxOf(worker)), "*> ") || !strings.HasPrefix(reply, inboxOf(worker)+".")) {
			t.Errorf("answers %q to %q", worker, reply)
		}
		if enrolAnswerable(reply) && !strings.HasPrefix(reply, enrolInbox("")) {
			t.Errorf("answers somebody to %q", reply)
		}
	})
}
