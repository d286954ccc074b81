package node

import (
	"context"
	"fmt"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// join opens the transport that the assignment names. It waits for the bus until dialDeadline. After that the
// launcher decides whether to start another process for the node. A worker's node follows the same rule, but once
// it has joined it can continue alone (outage.go).
func (l *attempt) join(ctx context.Context) (exchange.Exchange, error) {
	start, transport := l.model.start, l.model.start.Exchange
	switch transport.Kind {
	case protocol.ExchangeDir:
		return sharedir.Open(sharedir.Options{
			Dir: transport.Dir, Run: start.Run, Node: start.Node, Worker: transport.Worker, State: start.Dir, Compat: transport.Compat, Logger: l.logger,
		})
	case protocol.ExchangeNATS:
		ctx, cancel := context.WithTimeoutCause(ctx, dialDeadline, fmt.Errorf("no answer within %s", dialDeadline))
		defer cancel()
		return natsbus.Dial(ctx, natsbus.Options{
			URL: transport.URL, Token: transport.Token, Run: start.Run, Node: start.Node, Worker: transport.Worker, CAFile: transport.CAFile,
			Credentials: transport.Credentials, Logger: l.logger,
		})
	}
	return nil, fmt.Errorf("the assignment names an unknown transport: %q, allowed: %s, %s",
		transport.Kind, protocol.ExchangeNATS, protocol.ExchangeDir)
}
