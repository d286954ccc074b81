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

// Requests of workers. Answers go to the sender's own inbox:
//
//	swarm.w.<worker>.<verb>   hello join beat deliver offer read
//	swarm.enrol               membership.Enrol -> membership.Enrolled
//	swarm.why                 membership.Credentials -> why they are rejected
//
// A request carries the worker's secret and the protocol version as headers. An answer is JSON. With the header
// refusedHeader it is a membership.Refusal.
const (
	enrolSubject = "swarm.enrol"
	whySubject   = "swarm.why"
	workerPrefix = "swarm.w."

	verbHello   = "hello"
	verbJoin    = "join"
	verbBeat    = "beat"
	verbDeliver = "deliver"
	verbOffer   = "offer" // headers nodeHeader and roundHeader; data from exchange.Encode
	verbRead    = "read"  // header runHeader; data is a query

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

// message returns a request for a verb.
func (c caller) message(verb string, data []byte) *nats.Msg {
	m := nats.NewMsg(workerPrefix + c.worker + "." + verb)
	m.Data = data
	m.Header.Set(secretHeader, c.secret)
	m.Header.Set(protocolHeader, strconv.Itoa(membership.Protocol))
	return m
}

// call makes one request. It returns the answer's data, or a *membership.Refusal as the error.
func (c caller) call(ctx context.Context, m *nats.Msg) ([]byte, error) {
	var answer *nats.Msg
	err := c.link.during(ctx, func(ctx context.Context) (err error) {
		answer, err = c.conn.RequestMsgWithContext(ctx, m)
		return err
	})
	return read(answer, err)
}

// errNoConnection replaces the client library's error of an exceeded buffer. The client keeps no requests to send
// later.
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

// refused returns the answer's refusal, or nil.
func refused(answer *nats.Msg) *membership.Refusal {
	if answer.Header.Get(refusedHeader) == "" {
		return nil
	}
	return decodeRefusal(answer.Data)
}

func decodeRefusal(data []byte) *membership.Refusal {
	var refusal membership.Refusal
	if len(data) > membership.MaxMessageBytes || json.Unmarshal(data, &refusal) != nil || refusal.Message == "" {
		return membership.Refuse(membership.CodeInternal, "the coordinator refused without a readable reason")
	}
	return refusal.Shown()
}

// final reports whether a refusal concerns the worker rather than one request: all its requests will be refused.
func final(refusal *membership.Refusal) bool {
	switch refusal.Code {
	case membership.CodeToken, membership.CodeRevoked, membership.CodeBanned, membership.CodeVersion:
		return true
	}
	return false
}

// outcast is the error of a worker that is not a member of the swarm. It wraps the refusal and exchange.ErrClosed,
// because retrying is useless.
type outcast struct{ refusal *membership.Refusal }

func (o outcast) Error() string   { return o.refusal.Message }
func (o outcast) Unwrap() []error { return []error{o.refusal, exchange.ErrClosed} }

// asOutcast converts a final refusal to an outcast and returns other errors unchanged.
func asOutcast(err error) error {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) && final(refusal) {
		return outcast{refusal}
	}
	return err
}
