package protocol

// Member is a node of the swarm as its peers see it.
type Member struct {
	Node   string `json:"node"`
	From   int    `json:"from,omitempty"`   // the first round that it shares
	Absent bool   `json:"absent,omitempty"` // silent, or out of step: not waited for; what it shares counts all the same
	Ahead  bool   `json:"ahead,omitempty"`  // with Absent: it is not behind, and waits for the others as ever
	Trust  string `json:"trust,omitempty"`  // how its rollouts are checked; empty: by TrustStream
}

// How a member's rollouts are checked.
const (
	TrustStream = ""       // its questions must be those that its seeded stream gives: their answer keys are known
	TrustKey    = "by_key" // another program's, without a stream: answer keys and metadata are taken as they come
)

// Members returns members of those names that share from round 0 on.
func Members(nodes ...string) []Member {
	members := make([]Member, len(nodes))
	for i, node := range nodes {
		members[i].Node = node
	}
	return members
}
