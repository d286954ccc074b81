package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// offerTimeout bounds one attempt to offer a batch. Eight megabytes over a slow line take long.
const offerTimeout = 60 * time.Second

// offer makes one attempt to offer a batch to the coordinator. again reports whether another attempt could succeed.
func (b *Bus) offer(ctx context.Context, round int, data []byte) (again bool, err error) {
	within, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	m := b.caller.message(verbOffer, data)
	m.Header.Set(nodeHeader, b.node)
	m.Header.Set(roundHeader, strconv.Itoa(round))
	_, err = b.caller.call(within, m)
	var refusal *membership.Refusal
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, nats.ErrMaxPayload):
		return false, fmt.Errorf("%w: %d bytes, but the server accepts at most %d per message", exchange.ErrRefused, len(data), b.conn.MaxPayload())
	case !errors.As(err, &refusal):
		return b.reachable(), err
	case final(refusal):
		return false, outcast{refusal}
	case b.mayAsk(err):
		select {
		case <-ctx.Done():
		case <-time.After(wait(refusal)):
		}
		return true, err
	}
	return false, fmt.Errorf("%w: %w", exchange.ErrRefused, refusal)
}

// mayAsk reports whether a worker's failed request could succeed if repeated.
func (b *Bus) mayAsk(err error) bool {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return again(refusal)
	}
	return b.reachable()
}

// explain returns why a worker's connection was closed for good, if that is the cause of err. Otherwise it returns err.
func (b *Bus) explain(ctx context.Context, err error) error {
	if b.worker == "" || b.reachable() || ctx.Err() != nil || !errors.Is(b.conn.LastError(), nats.ErrAuthorization) {
		return asOutcast(err)
	}
	return b.dialer.unauthorized(ctx, b.conn.LastError())
}
