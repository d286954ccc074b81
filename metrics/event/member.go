package event

// Members are the nodes of that name, there from round 0 on.
func Members(nodes ...string) []Member {
	members := make([]Member, len(nodes))
	for i, node := range nodes {
		members[i].Node = node
	}
	return members
}

// Names are the members' nodes, in order.
func Names(members []Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Node
	}
	return names
}
