package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// maxReplicas is the number of copies of a stream on an external cluster. One server may fail.
const maxReplicas = 3

// JetStream's error codes for more replicas than the cluster has servers.
const (
	errNoPeers        jetstream.ErrorCode = 10005
	errNotClustered   jetstream.ErrorCode = 10074
	errNoResources    jetstream.ErrorCode = 10023
	errFewerResources jetstream.ErrorCode = 10047 // storage
)

// cluster is an external NATS cluster. It must have JetStream and accept messages of 9 MB (max_payload). The
// coordinator's user needs these permissions:
//
//	publish    $JS.API.>  swarm.>  _INBOX.>  _INBOX_w.>  _INBOX_e.>
//	subscribe  swarm.>  _INBOX.>
//
// A worker's user needs these. W is the worker's name, in which every byte that isn't a letter, digit, _ or - is
// written as = and two hexadecimal digits:
//
//	publish    swarm.enrol  swarm.w.W.>  swarm.*.want.*.*
//	subscribe  swarm.*.shared.>  _INBOX_w.W.>  _INBOX_e.>
//
// All workers receive the answers to enrolments, so these contain no secrets. A worker must not have $JS.API.>, not
// even for reading: a client with access to JetStream can direct its answers to any subject. An account serves one
// coordinator at a time.
//
// A leaf node is a server near a worker's nodes that forwards their requests to the cluster:
//
//	max_payload: 9MB
//	leafnodes { remotes [ { url: "nats-leaf://user:password@hub:7422" } ] }
//
// The cluster listens for leaf nodes (leafnodes { listen: "0.0.0.0:7422" }). The leaf node's user needs a worker's
// permissions. Nodes dial a leaf node like the cluster. Only workers' nodes can use one: JetStream requests, which the
// coordinator's nodes make, do not pass a leaf node.
type cluster struct {
	url string
}

// connectCluster is Start with a cluster instead of an embedded broker.
func connectCluster(options ServerOptions) (*Server, error) {
	where, err := parseAddress(strings.Join(options.External, ","))
	if err != nil {
		return nil, fail.Usage(fmt.Errorf("use the NATS cluster: %w", err), "--nats nats://host:4222,nats://host:4222")
	}
	where.later = true
	s := &Server{
		cluster: &cluster{url: where.url()}, admit: options.Admit, logger: options.Logger,
		pokes: make(chan string, 1), folders: map[string]string{},
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	d := dialer{address: where, name: "coordinator", caFile: options.CAFile, credentials: options.Credentials, logger: options.Logger}
	s.conn, err = d.dial(ctx)
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("the NATS cluster at %s rejects these credentials. Try: --nats-creds FILE, or a user and a password in the URL", where)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the NATS cluster at %s is not reachable: %w. Try: check that its servers run and listen for clients there", where, err)
	case err != nil:
		return nil, fmt.Errorf("use the NATS cluster at %s: %w", where, err)
	}
	if s.js, err = jetstream.New(s.conn); err == nil {
		_, err = s.js.AccountInfo(ctx)
	}
	if err != nil {
		s.conn.Close()
		return nil, fmt.Errorf("use the NATS cluster at %s: its JetStream: %w. Try: jetstream { } in its configuration", where, err)
	}
	return s, nil
}

// url returns the address in the form of Options.URL.
func (a address) url() string {
	text := a.servers()
	if a.scheme == schemeTLS && a.later {
		text += "?handshake=later"
	}
	return text
}

// createStream creates or opens a run's stream. On a cluster it uses up to maxReplicas replicas, as many as the cluster
// has servers for.
func (s *Server) createStream(ctx context.Context, run string) error {
	if s.cluster == nil {
		return createStream(ctx, s.js, run, 1)
	}
	for replicas := maxReplicas; ; replicas-- {
		err := createStream(ctx, s.js, run, replicas)
		var refused *jetstream.APIError
		if err == nil || replicas == 1 || !errors.As(err, &refused) {
			return err
		}
		switch refused.ErrorCode {
		case errNoPeers, errNotClustered, errNoResources, errFewerResources:
		default:
			return err
		}
	}
}
