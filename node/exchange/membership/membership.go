// Package membership connects the nodes of other hosts to a swarm. It implements admission, the messages between worker
// and coordinator, and the exactly-once delivery of a worker's events to the coordinator's database. It decides for
// which members the barrier waits and which rollouts of an untrusted sender are accepted. It has no network code:
// natsbus and sharedir carry its messages.
//
// A worker enrols once with an invitation and keeps its own credentials. For a run it then sends Hello (answer: the
// run), Join (answer: assignments for its nodes), Beat every BeatInterval (answer: the roster) and Deliver (events from
// an Outbox on disk). Its last Beat has Left set.
package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Protocol is the version of these messages. Every message carries it. Other versions are refused with CodeVersion.
const Protocol = 2

// Bounds of a worker's messages. The coordinator refuses larger ones unread.
const (
	MaxMessageBytes   = 1 << 20 // any message except an offered batch
	MaxDeliveryEvents = 1000
	MaxNameBytes      = 32
	MaxNodes          = 64 // nodes of one worker
	MaxWorkers        = 1024
	MaxTextBytes      = 1 << 10 // of a version, host or message
	MaxEventBytes     = 256 << 10
)

// Times that both sides rely on.
const (
	BeatInterval = 2 * time.Second
	SilentAfter  = 15 * time.Second // after this time without a beat, the barrier doesn't wait for a worker's nodes
)

// Hello introduces a worker's process.
type Hello struct {
	Protocol int     `json:"protocol"`
	Version  string  `json:"version"` // of the program
	Host     string  `json:"host"`
	Process  string  `json:"process,omitempty"` // random; distinguishes two processes with one worker's credentials
	Time     float64 `json:"time"`              // the worker's clock, Unix seconds
}

// Welcome describes the run.
type Welcome struct {
	Protocol   int               `json:"protocol"`
	Run        string            `json:"run"`
	Experiment string            `json:"experiment"`
	Config     json.RawMessage   `json:"config"` // configs.Config
	Inputs     map[string]string `json:"inputs"` // hashes of model and tasks, as recorded with the run
	Version    string            `json:"version"`
	Round      int               `json:"round"` // the newest round that any member works on
	Time       float64           `json:"time"`  // the coordinator's clock
}

// Join requests node assignments. A worker that comes back sends it again, with the current state of its nodes.
type Join struct {
	Protocol int        `json:"protocol"`
	Run      string     `json:"run"`
	Device   string     `json:"device"` // cpu, or the GPU's name
	Nodes    []NodeInfo `json:"nodes"`
}

// NodeInfo describes one node of a worker.
type NodeInfo struct {
	Name         string `json:"name,omitempty"` // wished for; empty: <worker>_<index>
	Model        string `json:"model"`
	Rounds       int    `json:"rounds"` // rounds that its previous process completed; 0: a new node
	GenerateOnly bool   `json:"generate_only,omitempty"`
}

// Joined holds the assignments, in the order requested, and the roster.
type Joined struct {
	Assignments []NodeAssignment `json:"seats"`
	Roster      Roster           `json:"roster"`
}

// NodeAssignment is a node's place in the swarm.
type NodeAssignment struct {
	Node string `json:"node"`
	From int    `json:"from"` // first round; unchanged for a node with a previous process

	// Recorded is the first round that the coordinator's database lacks. It has all rounds from From to Recorded-1. The
	// node must report the rounds from Recorded on (again). It is at least From.
	Recorded  int   `json:"recorded"`
	Evaluated []int `json:"evaluated"` // rounds with an evaluation in the database
}

// Beat is a worker's sign of life.
type Beat struct {
	Protocol int        `json:"protocol"`
	Run      string     `json:"run"`
	Nodes    []Progress `json:"nodes"`
	Roster   int64      `json:"roster"`            // version that the worker has
	Process  string     `json:"process,omitempty"` // as in Hello
	Time     float64    `json:"time,omitempty"`    // the worker's clock
	Pending  int64      `json:"pending,omitempty"` // undelivered events in its outbox
	Left     bool       `json:"left,omitempty"`    // the last beat of a worker that leaves in order
}

// Progress is the state of a node.
type Progress struct {
	Node  string      `json:"node"`
	Round int         `json:"round"` // current round, from 0
	State event.State `json:"state"`
}

// Roster is the coordinator's view of the swarm.
type Roster struct {
	Version int64             `json:"version"`
	Members []protocol.Member `json:"members,omitempty"` // absent if the worker has this version
	Round   int               `json:"round"`             // the newest round that any member works on
	Ended   string            `json:"ended,omitempty"`   // the run's final state, after which the worker's nodes must stop
	Message string            `json:"message,omitempty"` // with Ended
	Time    float64           `json:"time"`              // the coordinator's clock
}

// Delivery is a contiguous part of a worker's outbox.
type Delivery struct {
	Protocol int               `json:"protocol"`
	Run      string            `json:"run"`
	Outbox   string            `json:"outbox"` // name of the outbox; a lost outbox begins again under another name
	First    int64             `json:"first"`  // number of the first event, from 1
	Events   []json.RawMessage `json:"events"` // event.Event
}

// Receipt tells up to which number events are durable in the database.
type Receipt struct {
	Acked      int64   `json:"acked"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds to wait before the next delivery, because the rate is too high
}

// Offer is a node's batch for a round, offered to the swarm.
type Offer struct {
	Node  string
	Round int
	Data  []byte // from exchange.Encode
}

// Uplink is a worker's side: it carries requests to the coordinator. An error that wraps a *Refusal is the
// coordinator's final answer to that request. Any other error comes from the transport, and the request may be
// repeated. Safe for concurrent use.
type Uplink interface {
	Hello(ctx context.Context, hello Hello) (Welcome, error)
	Join(ctx context.Context, join Join) (Joined, error)
	Beat(ctx context.Context, beat Beat) (Roster, error)
	Deliver(ctx context.Context, delivery Delivery) (Receipt, error)
	Close() error
}

// Admission is the coordinator's side. A transport calls it after authenticating the worker. Its errors are *Refusal.
// Safe for concurrent use.
type Admission interface {
	Enrol(ctx context.Context, enrol Enrol) (Enrolled, error)
	Hello(ctx context.Context, worker string, hello Hello) (Welcome, error)
	Join(ctx context.Context, worker string, join Join) (Joined, error)
	Beat(ctx context.Context, worker string, beat Beat) (Roster, error)
	Deliver(ctx context.Context, worker string, delivery Delivery) (Receipt, error)

	// Offer checks a batch and shares it with the swarm. It returns once the batch is durable.
	Offer(ctx context.Context, worker string, offer Offer) error
}

// Codes of a Refusal.
const (
	CodeToken     = "token"     // unknown invitation, or wrong secret
	CodeRevoked   = "revoked"   // this worker's credentials were revoked
	CodeBanned    = "banned"    // with the reason
	CodeVersion   = "version"   // another protocol version
	CodeRun       = "run"       // the coordinator runs another run
	CodeName      = "name"      // a name that is taken or invalid
	CodeFull      = "full"      // too many workers or nodes
	CodeMalformed = "malformed" // above a bound, or not decodable
	CodeRate      = "rate"      // rate limit exceeded
	CodeRollouts  = "rollouts"  // a batch that breaks the experiment's rules
	CodeEnded     = "ended"     // the run is over
	CodeInternal  = "internal"  // an error of the coordinator: retry
)

// Refusal is the coordinator's rejection of a request, in one line.
type Refusal struct {
	Code       string  `json:"code"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds, with CodeRate and CodeInternal; with CodeName: until the other process counts as gone

	cause error // of CodeInternal, for the coordinator's log
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause of CodeInternal on the side where it occurred. The cause is not transmitted.
func (r *Refusal) Unwrap() error { return r.cause }

// Refuse creates a Refusal.
func Refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
