package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// callTimeout bounds one request of an uplink. The delivery client repeats it.
const callTimeout = 15 * time.Second

// UplinkOptions select the worker and the coordinator to dial.
type UplinkOptions struct {
	Invitation      membership.Invitation // its token is ignored
	Credentials     membership.Credentials
	CAFile          string // for a server without a fingerprint; empty: the system's CAs
	NATSCredentials string // file, for an external cluster
	Logger          *slog.Logger
}

// uplink carries a worker's requests to the Admission over NATS.
type uplink struct {
	dialer dialer
	caller caller

	mu     sync.Mutex
	reason error // why the connection is closed for good
}

var _ membership.Uplink = (*uplink)(nil)

// DialUplink connects a worker to its coordinator. It retries an unreachable coordinator until ctx ends. If the
// coordinator rejects the worker's credentials, the error is a *membership.Refusal with the reason.
func DialUplink(ctx context.Context, o UplinkOptions) (membership.Uplink, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	d := dialer{
		address: addressOf(o.Invitation), name: "worker " + o.Credentials.Worker, worker: o.Credentials.Worker, secret: o.Credentials.Secret,
		caFile: o.CAFile, credentials: o.NATSCredentials, link: newLink(), logger: logger.With("worker", o.Credentials.Worker),
	}
	if err := checkName("worker", d.worker); err != nil {
		return nil, fmt.Errorf("reach the coordinator: %w", err)
	}
	conn, err := d.dial(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = nobodyAnswers(err)
	}
	if err != nil {
		return nil, fmt.Errorf("reach the coordinator at %s: %w", d.address, err)
	}
	return &uplink{dialer: d, caller: caller{conn: conn, link: d.link, worker: token(d.worker), secret: d.secret}}, nil
}

func (u *uplink) Hello(ctx context.Context, hello membership.Hello) (membership.Welcome, error) {
	return ask[membership.Welcome](ctx, u, verbHello, hello)
}

func (u *uplink) Join(ctx context.Context, join membership.Join) (membership.Joined, error) {
	return ask[membership.Joined](ctx, u, verbJoin, join)
}

func (u *uplink) Beat(ctx context.Context, beat membership.Beat) (membership.Roster, error) {
	return ask[membership.Roster](ctx, u, verbBeat, beat)
}

func (u *uplink) Deliver(ctx context.Context, delivery membership.Delivery) (membership.Receipt, error) {
	return ask[membership.Receipt](ctx, u, verbDeliver, delivery)
}

func (u *uplink) Close() error {
	u.caller.conn.Close()
	return nil
}

// ask makes one request. An unreadable answer counts as a refusal because of another version.
func ask[A any](ctx context.Context, u *uplink, verb string, question any) (A, error) {
	var answer A
	data, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	if len(data) > membership.MaxMessageBytes {
		return answer, membership.Refuse(membership.CodeMalformed, "a request of %d bytes, at most %d", len(data), membership.MaxMessageBytes)
	}
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err = u.caller.call(within, u.caller.message(verb, data))
	if err == nil {
		if err = json.Unmarshal(data, &answer); err != nil {
			err = membership.Refuse(membership.CodeVersion, "the coordinator's answer can't be read. "+
				"Try: install the same version of swarm on both machines")
		}
	}
	if err != nil {
		return answer, fmt.Errorf("%s: %w", verb, u.explain(ctx, err))
	}
	return answer, nil
}

// explain asks the coordinator once why the connection was closed for good.
func (u *uplink) explain(ctx context.Context, err error) error {
	if !u.caller.conn.IsClosed() || !errors.Is(u.caller.conn.LastError(), nats.ErrAuthorization) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reason == nil {
		reason := u.dialer.unauthorized(ctx, u.caller.conn.LastError())
		var refusal *membership.Refusal
		if !errors.As(reason, &refusal) {
			return reason // the coordinator couldn't be asked
		}
		u.reason = reason
	}
	return u.reason
}
