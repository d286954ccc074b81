package protocol

import "encoding/json"

// Start is a node's whole assignment. Secrets travel in it, never in argv.
type Start struct {
	Protocol      int             `json:"protocol"`
	Run           string          `json:"run"`
	Node          string          `json:"node"`          // node_0 ...
	Index         int             `json:"index"`         // 0 ...
	Members       []Member        `json:"members"`       // all nodes of the swarm, itself included
	From          int             `json:"from"`          // first round if nothing is recovered; a late joiner starts with the swarm's round
	GenerateOnly  bool            `json:"generate_only"` // share rollouts, do not train
	Dir           string          `json:"dir"`           // the node's folder: checkpoints, journal
	Evaluated     []int           `json:"evaluated"`     // rounds with an evaluation of this node in the database
	Recorded      int             `json:"recorded"`      // rounds of this node in the database, from 0 without a gap; the node reports later ones again
	Config        json.RawMessage `json:"config"`        // configs.Config
	Python        string          `json:"python"`
	EngineDir     string          `json:"engine_dir"` // folder that holds the engine package
	Tokenizer     string          `json:"tokenizer"`  // bytes, gpt2
	ModelDir      string          `json:"model_dir"`
	Device        string          `json:"device"` // cpu, cuda:0
	Threads       int             `json:"threads"`
	BudgetBytes   int64           `json:"budget_bytes"`   // device memory, 0: none
	OthersBytes   int64           `json:"others_bytes"`   // device memory that the plan leaves to other nodes and processes
	Transient     Transient       `json:"transient"`      // the plan's estimate for the phases
	Ranks         int             `json:"ranks"`          // data-parallel ranks, cuda:0 and up; 0 is 1
	GenerateBatch int             `json:"generate_batch"` // completions to decode together by the plan; 0: all of a round
	TrimAfter     bool            `json:"trim_after"`     // free cached memory after each phase, because the plan excludes it
	Exchange      Exchange        `json:"exchange"`
	Leased        bool            `json:"leased"`             // request a lease before computing
	Verdicts      *Verdicts       `json:"verdicts,omitempty"` // nil: the learning rate stays as configured
}

// Transient is the memory of the phases beyond a node's resident memory, in bytes. Leases request these amounts
// until the node has measured its phases.
type Transient struct {
	GenerateBytes int64 `json:"generate_bytes"`
	UpdateBytes   int64 `json:"update_bytes"`
}

// Kinds of an Exchange.
const (
	ExchangeNATS = "nats"
	ExchangeDir  = "dir"
)

// Exchange describes how to reach the swarm.
type Exchange struct {
	Kind        string `json:"kind"`                  // one of Exchange*
	URL         string `json:"url,omitempty"`         // nats://host:port or tls://host:port?fp=..., or several, comma-separated
	Token       string `json:"token,omitempty"`       // the bus's own token, or the worker's secret
	Worker      string `json:"worker,omitempty"`      // empty: a node on the coordinator's host
	Credentials string `json:"credentials,omitempty"` // credentials file of an external cluster
	CAFile      string `json:"ca_file,omitempty"`     // CA of a certificate that is verified by name
	Dir         string `json:"dir,omitempty"`         // shared folder
	Compat      bool   `json:"compat,omitempty"`      // with a folder: also write rl-swarm's files
}
