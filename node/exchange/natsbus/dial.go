package natsbus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	// A worker's connection is long-distance and may go silent without being closed. Pings detect that.
	farTimeout = 5 * time.Second
	farWait    = 500 * time.Millisecond
	farPing    = 5 * time.Second
	farPings   = 2
)

// dialer creates connections of one client.
type dialer struct {
	address     address
	name        string // shown in the broker's lists
	token       string // for the coordinator's own nodes
	worker      string // with secret; empty: not a worker
	secret      string
	caFile      string
	credentials string
	link        *link // may be nil
	logger      *slog.Logger
}

// dial connects and keeps the connection alive. An error that a retry can't fix is returned at once. Otherwise dial
// retries until ctx ends.
func (d dialer) dial(ctx context.Context) (*nats.Conn, error) {
	options, err := d.options()
	if err != nil {
		return nil, err
	}
	var conn *nats.Conn
	reported := false
	err = retry(ctx, func() (bool, error) {
		conn, err = nats.Connect(d.address.servers(), options...)
		err = plainly(err)
		if err != nil && !reported && d.worker != "" {
			reported = true
			d.logger.Debug("the coordinator is not reachable yet, retrying", "at", d.address.String(), "error", err)
		}
		if line := untrusted(err); line != nil {
			return false, line
		}
		if errors.Is(err, nats.ErrAuthorization) {
			err = d.unauthorized(ctx, err)
			return d.worker != "" && !errors.Is(err, exchange.ErrClosed), err // a retry may help: the registry becomes readable, or a connection closes
		}
		return true, err
	})
	return conn, err
}

func (d dialer) options() ([]nats.Option, error) {
	options, err := d.address.security(d.caFile, d.credentials)
	if err != nil {
		return nil, err
	}
	options = append(options,
		nats.Name(d.name),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), // requests fail without a connection; the callers' loops retry
		nats.IgnoreDiscoveredServers(),
		nats.SyncQueueLen(2*max(readSubjects, readBatches)), // twice the messages of one answer; the client's default of 65,536 takes half a megabyte per request
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				d.logger.Warn("connection to the message bus lost, reconnecting", "error", err)
			}
			d.changed()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			d.logger.Info("reconnected to the message bus")
			d.changed()
		}),
		nats.ReconnectErrHandler(d.logOnce()),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			d.logger.Warn("message bus", "error", err)
		}),
	)
	if d.worker == "" {
		if d.token != "" {
			options = append(options, nats.Token(d.token))
		}
		return append(options, nats.Timeout(connectTimeout), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait)), nil
	}
	if d.address.scheme == schemeTLS { // an external cluster has its own users
		options = append(options, nats.UserInfo(d.worker, d.secret))
	}
	return append(options, nats.CustomInboxPrefix(inboxOf(token(d.worker))), nats.Timeout(farTimeout),
		nats.ReconnectWait(farWait), nats.ReconnectJitter(farWait, farWait), nats.PingInterval(farPing), nats.MaxPingsOutstanding(farPings)), nil
}

func (d dialer) changed() {
	if d.link != nil {
		d.link.change()
	}
}

// logOnce logs once if a restarted server has the wrong certificate. The client keeps retrying.
func (d dialer) logOnce() nats.ConnErrHandler {
	var once sync.Once
	return func(_ *nats.Conn, err error) {
		if line := untrusted(err); line != nil {
			once.Do(func() { d.logger.Warn("message bus", "error", line) })
		}
	}
}

// unauthorized explains why the server rejected this client.
func (d dialer) unauthorized(ctx context.Context, err error) error {
	if d.worker == "" || d.address.scheme != schemeTLS {
		return fmt.Errorf("wrong token: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*farTimeout)
	defer cancel()
	_, why := d.ask(ctx, whySubject, membership.Credentials{Worker: d.worker, Secret: d.secret})
	var refusal *membership.Refusal
	if errors.As(why, &refusal) && final(refusal) {
		return outcast{refusal}
	}
	if why == nil { // the credentials are valid, so the gate has another reason
		return fmt.Errorf("the coordinator accepts no more connections of worker %s. Try: fewer nodes on this machine", d.worker)
	}
	return fmt.Errorf("the coordinator does not admit worker %s: %w", d.worker, err)
}

// ask makes one request without credentials.
func (d dialer) ask(ctx context.Context, subject string, question any) ([]byte, error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, nonceDigits/2)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	nonce := hex.EncodeToString(secret)
	options, err := d.address.security(d.caFile, d.credentials)
	if err != nil {
		return nil, err
	}
	options = append(options, nats.Name(nonce), nats.Timeout(farTimeout), nats.NoReconnect(), nats.CustomInboxPrefix(enrolInbox(nonce)))
	if d.address.scheme == schemeTLS {
		options = append(options, nats.UserInfo(enrolUser, ""))
	}
	conn, err := nats.Connect(d.address.servers(), options...)
	if line := untrusted(err); line != nil {
		return nil, line
	}
	if err != nil {
		return nil, plainly(err)
	}
	defer conn.Close()
	m := nats.NewMsg(subject)
	m.Header.Set(protocolHeader, fmt.Sprint(membership.Protocol))
	m.Data = data
	answer, err := conn.RequestMsgWithContext(ctx, m)
	return read(answer, err)
}

// TLSOptions are the settings of a connection that an invitation doesn't contain.
type TLSOptions struct {
	CAFile      string // for a server without a fingerprint; empty: the system's CAs
	Credentials string // file, for an external cluster
	Busy        func() // called once when the coordinator has too many newcomers; may be nil
}

// errBusy reports that the broker has too many newcomers at the moment. It rejects clients without credentials for no
// other reason.
var errBusy = fmt.Errorf("the coordinator has its maximum of new connections (%d at a time from one address, %d in all). "+
	"Try: the same command again in a minute, or a longer --wait", maxEnrollingOf, maxEnrolling)

// Enrol exchanges an invitation for a worker's own credentials. It retries an unreachable coordinator until ctx ends. A
// refusal is a *membership.Refusal.
func Enrol(ctx context.Context, i membership.Invitation, name string, o TLSOptions) (membership.Credentials, error) {
	d := dialer{address: addressOf(i), caFile: o.CAFile, credentials: o.Credentials, logger: slog.New(slog.DiscardHandler)}
	if _, err := d.address.security(d.caFile, d.credentials); err != nil {
		return membership.Credentials{}, fmt.Errorf("enroll at %s: %w", d.address, err)
	}
	application := membership.Apply(i.Token, name) // the same for every attempt, because the answer to an earlier one may have been lost
	var credentials membership.Credentials
	busy := false
	err := retry(ctx, func() (_ bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		data, err := d.ask(ctx, enrolSubject, application.Enrol)
		if errors.Is(err, nats.ErrAuthorization) && d.address.scheme == schemeTLS {
			if !busy && o.Busy != nil {
				o.Busy()
			}
			busy = true
			return true, errBusy
		}
		if err != nil {
			return again(err), err
		}
		answer, err := decodeEnrolled(data)
		if err != nil {
			return false, err
		}
		credentials, err = application.Accept(answer)
		return false, err
	})
	if err != nil && busy && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return membership.Credentials{}, fmt.Errorf("enroll at %s: %w", d.address, errBusy)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return membership.Credentials{}, fmt.Errorf("enroll at %s: %w", d.address, nobodyAnswers(err))
	}
	if errors.Is(err, nats.ErrAuthorization) && d.address.scheme != schemeTLS {
		return membership.Credentials{}, fmt.Errorf("enroll at %s: the cluster requires an account: %w. "+
			"Try: --nats-creds FILE, from the cluster's administrator", d.address, err)
	}
	if err != nil {
		return membership.Credentials{}, fmt.Errorf("enroll at %s: %w", d.address, err)
	}
	return credentials, nil
}

// plainly explains a client library's error: the library reports a refused connection as a lack of servers.
func plainly(err error) error {
	if errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("connection refused (%w)", err)
	}
	return err
}

// nobodyAnswers returns the error of a wait that reached its deadline. err tells how long the wait took, and the last
// attempt's failure.
func nobodyAnswers(err error) error {
	return fmt.Errorf("no answer from this address: %w. Try: check that swarm up --listen runs there, and that its port is reachable from here "+
		"(firewall, port forwarding, swarm up --advertise), or a longer --wait", err)
}

func decodeEnrolled(data []byte) (answer membership.Enrolled, err error) {
	if len(data) > membership.MaxMessageBytes || json.Unmarshal(data, &answer) != nil {
		return answer, errors.New("the coordinator's answer can't be read. Try: install the same version of swarm on both machines")
	}
	return answer, nil
}

// again reports whether a failed request could succeed if repeated.
func again(err error) bool {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code == membership.CodeInternal || refusal.Code == membership.CodeRate
	}
	return untrusted(err) == nil && !errors.Is(err, nats.ErrAuthorization)
}
