package protocol

import "encoding/json"

// Start is a node's whole assignment. Secrets travel here, never in argv.
type Start struct {
	Protocol      int             `json:"protocol"`
	Run           string          `json:"run"`
	Node          string          `json:"node"`          // node_0 ...
	Index         int             `json:"index"`         // 0 ...
	Members       []Member        `json:"members"`       // every node of the swarm, itself included
	From          int             `json:"from"`          // the round it begins with, where nothing is recovered: a late joiner starts from the swarm's
	GenerateOnly  bool            `json:"generate_only"` // share rollouts, train on nothing
	Dir           string          `json:"dir"`           // the node's folder: checkpoints, journal
	Evaluated     []int           `json:"evaluated"`     // rounds whose evaluation the database has of this node
	Recorded      int             `json:"recorded"`      // rounds, from 0 without a gap, that the database has of this node: later ones in its journal are reported again
	Config        json.RawMessage `json:"config"`        // configs.Config
	Python        string          `json:"python"`
	EngineDir     string          `json:"engine_dir"` // holds the engine package
	Tokenizer     string          `json:"tokenizer"`  // bytes, gpt2
	ModelDir      string          `json:"model_dir"`
	Device        string          `json:"device"` // cpu, cuda:0
	Threads       int             `json:"threads"`
	BudgetBytes   int64           `json:"budget_bytes"`   // device memory, 0: none
	OthersBytes   int64           `json:"others_bytes"`   // device memory that the plan leaves to the other nodes and to what ran there before
	Transient     Transient       `json:"transient"`      // what the plan expects of the phases
	Ranks         int             `json:"ranks"`          // data-parallel ranks, cuda:0 and up; 0 is 1
	GenerateBatch int             `json:"generate_batch"` // completions that may be decoded together by the plan; 0: all of a round
	TrimAfter     bool            `json:"trim_after"`     // give cached memory back after phases: the plan does not keep it
	Exchange      Exchange        `json:"exchange"`
	Leased        bool            `json:"leased"` // ask for a lease before computing
}

// Transient is what the phases take beyond a node's resident memory, in bytes: the weights of its leases until it has
// measured them.
type Transient struct {
	GenerateBytes int64 `json:"generate_bytes"`
	UpdateBytes   int64 `json:"update_bytes"`
}

// Kinds of an Exchange.
const (
	ExchangeNATS = "nats"
	ExchangeDir  = "dir"
)

// Exchange says how to reach the swarm.
type Exchange struct {
	Kind        string `json:"kind"`                  // one of Exchange*
	URL         string `json:"url,omitempty"`         // nats://host:port or tls://host:port?fp=..., or several with commas
	Token       string `json:"token,omitempty"`       // the bus's own, or the worker's secret
	Worker      string `json:"worker,omitempty"`      // empty: a node of the coordinator's own host
	Credentials string `json:"credentials,omitempty"` // file, of an external cluster
	CAFile      string `json:"ca_file,omitempty"`     // of a certificate that is verified by name
	Dir         string `json:"dir,omitempty"`         // the shared folder
	Compat      bool   `json:"compat,omitempty"`      // with a folder: write rl-swarm's files, too
}
