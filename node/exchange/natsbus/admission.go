package natsbus

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	deskPending      = 64 << 20 // bytes of unprocessed requests; requests beyond it are dropped, and their senders retry
	deskPendingCalls = 16 << 10
	handleTimeout    = 30 * time.Second // for one request at the Admission
	maxInboxBytes    = 256
	mismatchEvery    = time.Minute
)

// ServeAdmission passes the workers' requests to the admission server and sends the answers. When ctx ends, it cancels
// the requests in progress and returns. Each worker has bounded lanes of its own. So neither a slow worker nor a slow
// admission server blocks the broker or other workers. Call it once per Server.
func (s *Server) ServeAdmission(ctx context.Context, admission membership.Admission) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &admissionRequests{server: s, admission: admission, lanes: newLanes(ctx), meter: newMeter(s.traffic)}
	for subject, handle := range map[string]nats.MsgHandler{
		workerPrefix + "*.*": d.worker, enrolSubject: d.enrol, whySubject: d.why,
	} {
		asked, err := s.conn.Subscribe(subject, handle)
		if err != nil {
			return fmt.Errorf("serve the workers: %w", err)
		}
		defer func() { _ = asked.Unsubscribe() }()
		if err := asked.SetPendingLimits(deskPendingCalls, deskPending); err != nil {
			return fmt.Errorf("serve the workers: %w", err)
		}
	}
	if err := s.conn.FlushTimeout(requestTimeout); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve the workers: %w", err)
	}
	<-ctx.Done()
	cancel()
	d.lanes.wait()
	return nil
}

// admissionRequests receives requests from the bus, queues them in lanes and sends the Admission's answers.
type admissionRequests struct {
	server    *Server
	admission membership.Admission
	lanes     *lanes
	meter     *meter

	mu         sync.Mutex
	mismatched time.Time // when the last mismatch was logged
}

// mismatch refuses a request of another protocol version and logs it. It logs at most once per mismatchEvery, because
// anyone can send such requests.
func (d *admissionRequests) mismatch(m *nats.Msg, who string, refusal error) {
	d.refuse(m, refusal)
	now := time.Now()
	d.mu.Lock()
	again := now.Sub(d.mismatched) < mismatchEvery
	if !again {
		d.mismatched = now
	}
	d.mu.Unlock()
	if !again {
		d.server.logger.Warn(who+" was refused", "reason", refusal)
	}
}

// worker handles a worker's request. The subject names the worker: the gate, or the cluster's permissions, let no one
// else publish there. The secret confirms the name.
func (d *admissionRequests) worker(m *nats.Msg) {
	workerToken, verb, _ := strings.Cut(strings.TrimPrefix(m.Subject, workerPrefix), ".")
	name, ok := untoken(workerToken)
	if !ok || !answerable(m.Reply, inboxOf(workerToken)) {
		return
	}
	if err := d.admit(name, m.Header.Get(secretHeader)); err != nil {
		d.refuse(m, err)
		return
	}
	if refusal := checkProtocol(m); refusal != nil {
		d.mismatch(m, "worker "+name, refusal)
		return
	}
	lane := workerToken + ".talk"
	switch verb {
	case verbRead:
		lane = workerToken + ".read"
	case verbOffer, verbDeliver:
		lane = workerToken + ".bulk"
	}
	d.queue(lane, m, func(ctx context.Context) (any, error) {
		if verb == verbRead {
			return nil, d.read(name, m)
		}
		return d.handle(ctx, name, verb, m)
	})
}

func (d *admissionRequests) enrol(m *nats.Msg) {
	if !enrolAnswerable(m.Reply) {
		return
	}
	if refusal := checkProtocol(m); refusal != nil {
		d.mismatch(m, "a process that wants to join", refusal)
		return
	}
	d.queue(enrolSubject, m, func(ctx context.Context) (any, error) {
		var enrol membership.Enrol
		if refusal := decode(m.Data, &enrol); refusal != nil {
			return nil, refusal
		}
		return d.admission.Enrol(ctx, enrol)
	})
}

// why tells a rejected client what is wrong with its credentials.
func (d *admissionRequests) why(m *nats.Msg) {
	if !enrolAnswerable(m.Reply) {
		return
	}
	d.queue(whySubject, m, func(context.Context) (any, error) {
		var c membership.Credentials
		if refusal := decode(m.Data, &c); refusal != nil {
			return nil, refusal
		}
		return struct{}{}, d.admit(c.Worker, c.Secret)
	})
}

func (d *admissionRequests) admit(worker, secret string) error {
	if d.server.admit == nil {
		return membership.Refuse(membership.CodeToken, "this coordinator does not admit workers. Try: swarm up --listen")
	}
	return d.server.admit(worker, secret)
}

// queue runs a request in its lane, or refuses it if the lane is full.
func (d *admissionRequests) queue(lane string, m *nats.Msg, handle func(context.Context) (any, error)) {
	taken := d.lanes.add(lane, len(m.Data), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, handleTimeout)
		defer cancel()
		answer, err := handle(ctx)
		switch {
		case err != nil:
			d.refuse(m, err)
		case answer != nil:
			d.answer(m, answer)
		}
	})
	if !taken {
		refusal := membership.Refuse(membership.CodeRate, "too many requests are already waiting")
		refusal.RetryAfter = 1
		d.refuse(m, refusal)
	}
}

func (d *admissionRequests) handle(ctx context.Context, worker, verb string, m *nats.Msg) (any, error) {
	switch verb {
	case verbHello:
		return serve(ctx, worker, m.Data, d.admission.Hello)
	case verbJoin:
		return serve(ctx, worker, m.Data, d.admission.Join)
	case verbBeat:
		return serve(ctx, worker, m.Data, d.admission.Beat)
	case verbDeliver:
		return serve(ctx, worker, m.Data, d.admission.Deliver)
	case verbOffer:
		offer, refusal := decodeOffer(m)
		if refusal != nil {
			return nil, refusal
		}
		return struct{}{}, d.admission.Offer(ctx, worker, offer)
	}
	return nil, membership.Refuse(membership.CodeMalformed, "unknown request %.40q", verb)
}

func serve[Q, A any](ctx context.Context, worker string, data []byte, call func(context.Context, string, Q) (A, error)) (any, error) {
	var request Q
	if refusal := decode(data, &request); refusal != nil {
		return nil, refusal
	}
	return call(ctx, worker, request)
}

// decode parses a request's JSON within its bound.
func decode(data []byte, request any) error {
	if len(data) > membership.MaxMessageBytes {
		return membership.Refuse(membership.CodeMalformed, "a request of %d bytes, at most %d", len(data), membership.MaxMessageBytes)
	}
	if err := json.Unmarshal(data, request); err != nil {
		return membership.Refuse(membership.CodeMalformed, "a request that can't be read: %.200s", err)
	}
	return nil
}

func decodeOffer(m *nats.Msg) (membership.Offer, error) {
	node, roundText := m.Header.Get(nodeHeader), m.Header.Get(roundHeader)
	round, err := strconv.Atoi(roundText)
	switch {
	case checkName("node", node) != nil:
		return membership.Offer{}, membership.Refuse(membership.CodeMalformed, "a batch of node %.40q", node)
	case err != nil || round < 0:
		return membership.Offer{}, membership.Refuse(membership.CodeMalformed, "a batch for round %.20q", roundText)
	case len(m.Data) > exchange.MaxBatchBytes:
		return membership.Offer{}, membership.Refuse(membership.CodeMalformed, "a batch of %d bytes, at most %d", len(m.Data), exchange.MaxBatchBytes)
	}
	return membership.Offer{Node: node, Round: round, Data: m.Data}, nil
}

// checkProtocol refuses a request of another protocol version before its content is read.
func checkProtocol(m *nats.Msg) error {
	if protocol := m.Header.Get(protocolHeader); protocol != strconv.Itoa(membership.Protocol) {
		return membership.Refuse(membership.CodeVersion, "the worker uses protocol %.10q and the coordinator %d. "+
			"Try: install the same version of swarm on both machines", protocol, membership.Protocol)
	}
	return nil
}

// read forwards a worker's query to JetStream, which answers to the worker's own inbox.
func (d *admissionRequests) read(worker string, m *nats.Msg) error {
	if to, ok := d.admission.(accounts); ok {
		if wait := d.meter.read(worker, to, time.Now()); wait > 0 {
			refusal := membership.Refuse(membership.CodeRate, "the limit of reads is reached. Try: again later")
			refusal.RetryAfter = wait.Seconds()
			return refusal
		}
	}
	subjects, err := newSubjects(m.Header.Get(runHeader))
	if err != nil {
		return membership.Refuse(membership.CodeMalformed, "%v", err)
	}
	q, err := decodeQuery(m.Data, subjects)
	if err != nil {
		return membership.Refuse(membership.CodeMalformed, "%v", err)
	}
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return d.server.conn.PublishRequest(subjects.direct(), m.Reply, data)
}

func (d *admissionRequests) answer(m *nats.Msg, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		d.refuse(m, err)
		return
	}
	d.respond(m, nats.NewMsg(m.Reply), data)
}

// refuse answers with a refusal. Errors that are no refusal become CodeInternal.
func (d *admissionRequests) refuse(m *nats.Msg, err error) {
	var refusal *membership.Refusal
	if !errors.As(err, &refusal) {
		d.server.logger.Warn("a worker's request failed", "subject", m.Subject, "error", err)
		refusal = membership.Refuse(membership.CodeInternal, "the coordinator had an internal error. Try: look at its log")
		refusal.RetryAfter = 1
	}
	data, err := json.Marshal(refusal)
	if err != nil {
		return
	}
	answer := nats.NewMsg(m.Reply)
	answer.Header.Set(refusedHeader, "1")
	d.respond(m, answer, data)
}

func (d *admissionRequests) respond(m, answer *nats.Msg, data []byte) {
	answer.Data = data
	if err := d.server.conn.PublishMsg(answer); err != nil {
		d.server.logger.Debug("a worker's request not answered", "subject", m.Subject, "error", err) // the worker retries
	}
}

// answerable reports whether an answer may be sent to a subject. The subject must be below the sender's own inbox.
// Otherwise the coordinator would write to any subject that a sender names.
func answerable(reply, inbox string) bool {
	rest, below := strings.CutPrefix(reply, inbox+".")
	return below && rest != "" && len(reply) <= maxInboxBytes && !strings.ContainsAny(rest, "*> \t\r\n") &&
		!strings.HasPrefix(rest, ".") && !strings.HasSuffix(rest, ".") && !strings.Contains(rest, "..")
}

func enrolAnswerable(reply string) bool {
	nonce, _, _ := strings.Cut(strings.TrimPrefix(reply, enrolInbox("")), ".")
	return isNonce(nonce) && answerable(reply, enrolInbox(nonce))
}

// StoreOffer stores a worker's checked batch in a run's stream. The first batch of a node and round counts. A repeat is
// no error.
func (s *Server) StoreOffer(ctx context.Context, run string, offer membership.Offer) error {
	subjects, err := newSubjects(run)
	if err != nil {
		return fmt.Errorf("store an offer: %w", err)
	}
	if err := checkName("node", offer.Node); err != nil {
		return fmt.Errorf("store an offer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = s.js.Publish(ctx, subjects.rollouts(offer.Round, offer.Node), offer.Data, jetstream.WithExpectLastSequencePerSubject(0))
	if err == nil || takenAlready(err) {
		return nil
	}
	s.poke(err.Error())
	return fmt.Errorf("store round %d of %s: %w", offer.Round, offer.Node, err)
}

// takenAlready reports whether a batch was not stored because the stream already has one.
func takenAlready(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// untoken is the inverse of token.
func untoken(t string) (string, bool) {
	if t == "" || len(t) > 3*maxNameBytes {
		return "", false
	}
	var name []byte
	for i := 0; i < len(t); i++ {
		if t[i] != '=' {
			name = append(name, t[i])
			continue
		}
		if i+2 >= len(t) {
			return "", false
		}
		c, err := hex.DecodeString(t[i+1 : i+3])
		if err != nil {
			return "", false
		}
		name = append(name, c[0])
		i += 2
	}
	return string(name), token(string(name)) == t
}
