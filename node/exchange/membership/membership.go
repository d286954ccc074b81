// Package membership connects the nodes of other hosts to a swarm: admission, the messages between worker and
// coordinator, which members the barrier waits for, which rollouts of an untrusted sender are accepted, and the
// exactly-once delivery of its events to the coordinator's database. It knows no network: natsbus and sharedir carry
// its messages.
//
// A worker enrols once with an invitation and keeps its own credentials; then, for a run: Hello (what is trained), Join
// (assignments for its nodes), Beat every BeatInterval (progress there, the roster back), Deliver (its events out of an
// Outbox on disk), and Leave.
package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Protocol is the version of these messages. It is on every one of them; another one is refused with CodeVersion.
const Protocol = 2

// Bounds of what a worker may send; what is above them is refused unread.
const (
	MaxMessageBytes   = 1 << 20 // any message but an offered batch
	MaxDeliveryEvents = 1000
	MaxNameBytes      = 32
	MaxNodes          = 64 // nodes of one worker
	MaxWorkers        = 1024
	MaxTextBytes      = 1 << 10 // of a version, host, message
	MaxEventBytes     = 256 << 10
)

// Times both sides rely on.
const (
	BeatInterval = 2 * time.Second
	SilentAfter  = 15 * time.Second // without a beat, a worker's nodes are not waited for
)

// Hello introduces a worker's process.
type Hello struct {
	Protocol int     `json:"protocol"`
	Version  string  `json:"version"` // of the program
	Host     string  `json:"host"`
	Process  string  `json:"process,omitempty"` // random, of the worker's process: two of them with one worker's credentials are told apart
	Time     float64 `json:"time"`              // the worker's clock, Unix seconds
}

// Welcome says what is trained.
type Welcome struct {
	Protocol   int               `json:"protocol"`
	Run        string            `json:"run"`
	Experiment string            `json:"experiment"`
	Config     json.RawMessage   `json:"config"` // configs.Config
	Inputs     map[string]string `json:"inputs"` // hashes of model and tasks, as the run is recorded with
	Version    string            `json:"version"`
	Round      int               `json:"round"` // the newest that any member works on
	Time       float64           `json:"time"`  // the coordinator's clock
}

// Join asks for node assignments. A worker that comes back asks again, with what its nodes hold by then.
type Join struct {
	Protocol int        `json:"protocol"`
	Run      string     `json:"run"`
	Device   string     `json:"device"` // what it trains on: cpu, or the GPU's name
	Nodes    []NodeInfo `json:"nodes"`
}

// NodeInfo is one node that a worker brings.
type NodeInfo struct {
	Name         string `json:"name,omitempty"` // wished for; empty: <worker>_<index>
	Model        string `json:"model"`
	Rounds       int    `json:"rounds"` // that its previous process got to; 0: it is new
	GenerateOnly bool   `json:"generate_only,omitempty"`
}

// Joined are the assignments, in the order asked for, and the swarm.
type Joined struct {
	Assignments []NodeAssignment `json:"seats"`
	Roster      Roster           `json:"roster"`
}

// NodeAssignment is a node's place in the swarm.
type NodeAssignment struct {
	Node string `json:"node"`
	From int    `json:"from"` // round to begin with; of a node with a previous process, the same as then

	// The coordinator's database has all rounds from From up to Recorded, excluded: from this number on it must be told
	// (again). From at least.
	Recorded  int   `json:"recorded"`
	Evaluated []int `json:"evaluated"` // rounds whose evaluation it has
}

// Beat is a worker's sign of life.
type Beat struct {
	Protocol int        `json:"protocol"`
	Run      string     `json:"run"`
	Nodes    []Progress `json:"nodes"`
	Roster   int64      `json:"roster"`            // version that the worker knows
	Process  string     `json:"process,omitempty"` // as in Hello
	Time     float64    `json:"time,omitempty"`    // the worker's clock
	Pending  int64      `json:"pending,omitempty"` // events that wait in its outbox
	Left     bool       `json:"left,omitempty"`    // it leaves in order: the last beat
}

// Progress is where a node is.
type Progress struct {
	Node  string      `json:"node"`
	Round int         `json:"round"` // it works on, from 0
	State event.State `json:"state"`
}

// Roster is the swarm as the coordinator sees it.
type Roster struct {
	Version int64             `json:"version"`
	Members []protocol.Member `json:"members,omitempty"` // absent where the worker knows this version
	Round   int               `json:"round"`             // the newest that any member works on
	Ended   string            `json:"ended,omitempty"`   // the run's final state: the worker's nodes are to stop
	Message string            `json:"message,omitempty"` // with Ended
	Time    float64           `json:"time"`              // the coordinator's clock
}

// Delivery is a stretch of a worker's outbox.
type Delivery struct {
	Protocol int               `json:"protocol"`
	Run      string            `json:"run"`
	Outbox   string            `json:"outbox"` // names the outbox: one that was lost begins again under another name
	First    int64             `json:"first"`  // number of the first event, from 1
	Events   []json.RawMessage `json:"events"` // event.Event
}

// Receipt says up to which number events are in the database for good.
type Receipt struct {
	Acked      int64   `json:"acked"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds to wait before the next: it came too fast
}

// Offer is a node's batch for a round, for the swarm to take.
type Offer struct {
	Node  string
	Round int
	Data  []byte // exchange.Encode's
}

// Uplink is a worker's side: it carries its requests to the coordinator. Errors that wrap a *Refusal are the
// coordinator's answer and final for that request; any other is the way's, and the request may be made again. Safe for
// concurrent use.
type Uplink interface {
	Hello(ctx context.Context, hello Hello) (Welcome, error)
	Join(ctx context.Context, join Join) (Joined, error)
	Beat(ctx context.Context, beat Beat) (Roster, error)
	Deliver(ctx context.Context, delivery Delivery) (Receipt, error)
	Close() error
}

// Admission is the coordinator's side: what a carrier calls once it knows which worker speaks. Its errors are *Refusal.
// Safe for concurrent use.
type Admission interface {
	Enrol(ctx context.Context, enrol Enrol) (Enrolled, error)
	Hello(ctx context.Context, worker string, hello Hello) (Welcome, error)
	Join(ctx context.Context, worker string, join Join) (Joined, error)
	Beat(ctx context.Context, worker string, beat Beat) (Roster, error)
	Deliver(ctx context.Context, worker string, delivery Delivery) (Receipt, error)

	// Offer checks a batch and shares it with the swarm. It returns once that is durable.
	Offer(ctx context.Context, worker string, offer Offer) error
}

// Codes of a Refusal.
const (
	CodeToken     = "token"     // no such invitation, or a wrong secret
	CodeRevoked   = "revoked"   // this worker's credentials were taken back
	CodeBanned    = "banned"    // with the reason
	CodeVersion   = "version"   // another protocol
	CodeRun       = "run"       // the coordinator runs another one
	CodeName      = "name"      // a name that is taken, or that is none
	CodeFull      = "full"      // as many workers or nodes as may be
	CodeMalformed = "malformed" // above a bound, or not decodable
	CodeRate      = "rate"      // too much in too short a time
	CodeRollouts  = "rollouts"  // a batch that breaks the experiment's rules
	CodeEnded     = "ended"     // the run is over
	CodeInternal  = "internal"  // the coordinator's own trouble: try again
)

// Refusal is the coordinator's no, in one line.
type Refusal struct {
	Code       string  `json:"code"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds, with CodeRate and CodeInternal; with CodeName: until the other one counts as gone

	cause error // of CodeInternal, for the coordinator's log
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap is the cause of CodeInternal on the side where it happened; it doesn't travel.
func (r *Refusal) Unwrap() error { return r.cause }

// Refuse makes a Refusal.
func Refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
