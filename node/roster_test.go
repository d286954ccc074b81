package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// A node does not wait for itself, for a member before its first round, for an absent member, or for more than
// max_peers.
func TestRosterWaitsForWhoTakesPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &Node{ID: "node_3", Config: configs.Config{Seed: 1, MaxPeers: rapid.IntRange(0, 12).Draw(t, "max_peers")}}
		round := rapid.IntRange(0, 5).Draw(t, "round")
		var members []protocol.Member
		var waited, absent []string
		for i := range rapid.IntRange(0, 20).Draw(t, "members") {
			m := protocol.Member{Node: fmt.Sprintf("node_%d", i), From: rapid.IntRange(0, 6).Draw(t, "from"), Absent: rapid.Bool().Draw(t, "absent")}
			members = append(members, m)
			switch {
			case i == 3 || m.From > round:
			case m.Absent:
				absent = append(absent, m.Node)
			default:
				waited = append(waited, m.Node)
			}
		}
		got := n.roster(round, members)
		room := n.Config.MaxPeers
		if room == 0 {
			room = len(members)
		}
		if len(got.present) != min(room, len(waited)) || len(got.absent) != min(room-len(got.present), len(absent)) {
			t.Fatalf("%d waited for, %d absent: %+v", len(waited), len(absent), got)
		}
		for _, peer := range got.present {
			if !slices.Contains(waited, peer) {
				t.Fatalf("%s is waited for", peer)
			}
		}
		for _, peer := range got.absent {
			if !slices.Contains(absent, peer) {
				t.Fatalf("%s is looked up", peer)
			}
		}
		if again := n.roster(round, members); !slices.Equal(again.present, got.present) || !slices.Equal(again.absent, got.absent) {
			t.Fatal("the same round draws others")
		}
	})
}

// Changes of the members interrupt a wait only if they change the peers that the node waits for.
func TestBarrierFollowsTheRoster(t *testing.T) {
	s := newStage(t, nil)
	s.share("node_2", useful(draw(t, s.node.Tasks, 1)))
	member := func(node string) protocol.Member { return protocol.Member{Node: node, Trust: protocol.TrustKey} }
	late, silent := member("node_9"), member("node_1")
	late.From, silent.Absent = 100, true
	go func() {
		s.host.await(event.StateBarrier)
		s.host.setMembers(member("node_0"), member("node_1"), member("node_2"), late)
		s.host.setMembers(member("node_0"), silent, member("node_2"), late)
	}()
	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, []event.Peer{{Node: "node_2", Available: 1, Used: 1}}, report.Peers)
	require.False(t, report.Late)
}

// Rollouts that an absent member has shared count. The barrier does not wait for that member, and it is not late.
func TestAbsentMembersCountIfTheyHaveShared(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 8; c.SwarmSize = 8 })
	members := protocol.Members("node_0", "node_1", "node_2", "node_3")
	for i := range members {
		members[i].Trust, members[i].Absent = protocol.TrustKey, i > 1
	}
	s.host.setMembers(members...)
	s.share("node_1", useful(draw(t, s.node.Tasks, 1)))
	s.share("node_2", useful(draw(t, s.node.Tasks, 2)))
	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, []event.Peer{{Node: "node_1", Available: 1, Used: 1}, {Node: "node_2", Available: 1, Used: 1}}, report.Peers)
	require.False(t, report.Late)
	require.Less(t, report.BarrierTime, 5.0)
}

// A remote node that is itself absent does not wait. It reads its peers like absent ones. A node of the
// coordinator's own host, and an async one, ignore their own absence.
func TestAnAbsentRemoteNodeWaitsForNobody(t *testing.T) {
	members := protocol.Members("node_0", "node_1", "node_2", "node_3", "node_4")
	members[2].Absent, members[3].From = true, 9
	for _, c := range []struct {
		name             string
		remote, absent   bool
		sync             string
		maxPeers         int
		waited, lookedUp []string
	}{
		{"remote and there", true, false, "barrier", 0, []string{"node_0", "node_1"}, []string{"node_2"}},
		{"remote and absent", true, true, "barrier", 0, nil, []string{"node_2", "node_0", "node_1"}},
		{"remote and absent, of few peers", true, true, "barrier", 2, nil, nil},
		{"of the coordinator's host", false, true, "barrier", 0, []string{"node_0", "node_1"}, []string{"node_2"}},
		{"async", true, true, "async", 0, []string{"node_0", "node_1", "node_2", "node_3"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := slices.Clone(members)
			members[4].Absent = c.absent
			n := &Node{ID: "node_4", Mode: Mode{Remote: c.remote}, Config: configs.Config{Seed: 1, Sync: c.sync, MaxPeers: c.maxPeers}}
			got := n.roster(5, members)
			require.ElementsMatch(t, c.waited, got.present)
			if c.maxPeers > 0 {
				require.Len(t, got.absent, c.maxPeers)
				require.Subset(t, []string{"node_0", "node_1", "node_2"}, got.absent)
				return
			}
			require.ElementsMatch(t, c.lookedUp, got.absent)
		})
	}
}
