package protocol

// Member is a node of the swarm as its peers see it.
type Member struct {
	Node   string `json:"node"`
	From   int    `json:"from,omitempty"`   // first round that it shares
	Absent bool   `json:"absent,omitempty"` // silent or out of step: peers do not wait for it, but use what it shares
	Ahead  bool   `json:"ahead,omitempty"`  // with Absent: it is not behind, and waits for the others as usual
	Trust  string `json:"trust,omitempty"`  // how peers check its rollouts; empty: TrustStream
}

// Ways to check a member's rollouts.
const (
	TrustStream = ""       // its questions must match its seeded stream, which also gives the answer keys
	TrustKey    = "by_key" // another program without a stream: accept its answer keys and metadata
)

// Members returns members with these names that share from round 0 on.
func Members(nodes ...string) []Member {
	members := make([]Member, len(nodes))
	for i, node := range nodes {
		members[i].Node = node
	}
	return members
}
