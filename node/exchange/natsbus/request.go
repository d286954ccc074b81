package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Requests of workers, and the answers, which go to the asker's own inbox:
//
//	swarm.w.<worker>.<verb>   hello join beat deliver offer read
//	swarm.enrol               membership.Enrol -> membership.Enrolled
//	swarm.why                 membership.Credentials -> why they are not taken
//
// A request carries the worker's secret and the protocol as headers; an answer is JSON, and a membership.Refusal where
// it has the header refusedHeader.
const (
	enrolSubject = "swarm.enrol"
	whySubject   = "swarm.why"
	workerPrefix = "swarm.w."

	verbHello   = "hello"
	verbJoin    = "join"
	verbBeat    = "beat"
	verbDeliver = "deliver"
	verbOffer   = "offer" // headers nodeHeader and roundHeader, data exchange.Encode's
	verbRead    = "read"  // header runHeader, data a query

	protocolHeader = "Swarm-Protocol"
	secretHeader   = "Swarm-Secret"
	nodeHeader     = "Swarm-Node"
	roundHeader    = "Swarm-Round"
	runHeader      = "Swarm-Run"
	refusedHeader  = "Swarm-Refused"
)

func inboxOf(workerToken string) string { return "_INBOX_w." + workerToken }
func enrolInbox(nonce string) string    { return "_INBOX_e." + nonce }

// caller makes a worker's requests over a connection.
type caller struct {
	conn   *nats.Conn
	link   *link
	worker string // token
	secret string
}

// message is a request for a verb.
func (c caller) message(verb string, data []byte) *nats.Msg {
	m := nats.NewMsg(workerPrefix + c.worker + "." + verb)
	m.Data = data
	m.Header.Set(secretHeader, c.secret)
	m.Header.Set(protocolHeader, strconv.Itoa(membership.Protocol))
	return m
}

// call makes one request and returns the answer's data, or the *membership.Refusal.
func (c caller) call(ctx context.Context, m *nats.Msg) ([]byte, error) {
	var answer *nats.Msg
	err := c.link.during(ctx, func(ctx context.Context) (err error) {
		answer, err = c.conn.RequestMsgWithContext(ctx, m)
		return err
	})
	return read(answer, err)
}

// errNoConnection is what the client calls an exceeded buffer: it keeps nothing to send later.
var errNoConnection = errors.New("there is no connection to the coordinator")

func read(answer *nats.Msg, err error) ([]byte, error) {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return nil, errNoConnection
	}
	if err != nil {
		return nil, err
	}
	if refusal := refused(answer); refusal != nil {
		return nil, refusal
	}
	return answer.Data, nil
}

// refused returns the refusal that an answer is, or nil.
func refused(answer *nats.Msg) *membership.Refusal {
	if answer.Header.Get(refusedHeader) == "" {
		return nil
	}
	return decodeRefusal(answer.Data)
}

func decodeRefusal(data []byte) *membership.Refusal {
	var refusal membership.Refusal
	if len(data) > membership.MaxMessageBytes || json.Unmarshal(data, &refusal) != nil || refusal.Message == "" {
		return membership.Refuse(membership.CodeInternal, "the coordinator said no and gave no readable reason")
	}
	return refusal.Shown()
}

// final tells whether a refusal is of the worker rather than of one request: nothing that it asks will be granted.
func final(refusal *membership.Refusal) bool {
	switch refusal.Code {
	case membership.CodeToken, membership.CodeRevoked, membership.CodeBanned, membership.CodeVersion:
		return true
	}
	return false
}

// outcast is the error of a worker that is not, or no longer, one of the swarm: its refusal, and exchange.ErrClosed,
// for there is nothing to wait for.
type outcast struct{ refusal *membership.Refusal }

func (o outcast) Error() string   { return o.refusal.Message }
func (o outcast) Unwrap() []error { return []error{o.refusal, exchange.ErrClosed} }

// asOutcast turns a final refusal into an outcast and leaves other errors as they are.
func asOutcast(err error) error {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) && final(refusal) {
		return outcast{refusal}
	}
	return err
}
