package node

import (
	"context"
	"fmt"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// join opens the assignment's way to the swarm. A bus that isn't there is waited for until dialDeadline: the launcher decides then whether the
// node gets another process to wait in. A worker's node is no exception; once it is in, it can go on alone (outage.go).
func (l *attempt) join(ctx context.Context) (exchange.Exchange, error) {
	start, way := l.model.start, l.model.start.Exchange
	switch way.Kind {
	case protocol.ExchangeDir:
		return sharedir.Open(sharedir.Options{
			Dir: way.Dir, Run: start.Run, Node: start.Node, Worker: way.Worker, State: start.Dir, Compat: way.Compat, Logger: l.logger,
		})
	case protocol.ExchangeNATS:
		ctx, cancel := context.WithTimeoutCause(ctx, dialDeadline, fmt.Errorf("no answer within %s", dialDeadline))
		defer cancel()
		return natsbus.Dial(ctx, natsbus.Options{
			URL: way.URL, Token: way.Token, Run: start.Run, Node: start.Node, Worker: way.Worker, CAFile: way.CAFile,
			Credentials: way.Credentials, Logger: l.logger,
		})
	}
	return nil, fmt.Errorf("the assignment names no way to the swarm that this program knows: %q, allowed: %s, %s",
		way.Kind, protocol.ExchangeNATS, protocol.ExchangeDir)
}
