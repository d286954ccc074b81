package gpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAttribute(t *testing.T) {
	two := []Claim{{"node_0", 100, 30, 40}, {"node_1", 101, 20, 20}}
	tests := []struct {
		name         string
		used         int64
		processes    []Process
		claims       []Claim
		nodes        int64
		unattributed int64
		owners       map[int]string
	}{
		{"nobody", 70, nil, nil, 0, 70, map[int]string{}},
		{"the driver lists no processes", 70, nil, two, 50, 20, map[int]string{}},
		{"own pids: contexts count as nodes'", 70, []Process{{100, 35}, {101, 25}, {7, 5}}, two, 60, 10, map[int]string{100: "node_0", 101: "node_1"}},
		{"own pids, another user's memory not told", 70, []Process{{100, -1}, {101, 25}}, two, 55, 15, map[int]string{100: "node_0", 101: "node_1"}},
		{"in a container: the host's pids", 70, []Process{{9100, 35}, {9101, 25}}, two, 50, 20, map[int]string{}},
		{"in a container: one pid looks familiar by chance", 70, []Process{{100, 35}, {9101, 25}}, two, 50, 20, map[int]string{}},
		{"familiar pids that hold less than their nodes are others'", 70, []Process{{100, 35}, {101, 3}}, two, 50, 20, map[int]string{}},
		{"a node whose engine isn't known", 70, []Process{{100, 35}, {0, 25}}, []Claim{two[0], {"node_1", 0, 20, 20}}, 50, 20, map[int]string{}},
		{"figures of another moment", 40, nil, two, 50, 0, map[int]string{}},
		{"nothing known of the device", -1, nil, two, 50, -1, map[int]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := Attribute(tt.used, tt.processes, tt.claims)
			require.Equal(t, tt.nodes, a.Nodes)
			require.Equal(t, tt.unattributed, a.Unattributed)
			require.Equal(t, tt.owners, a.Owners)
			require.Len(t, a.Portions, len(tt.claims))
		})
	}
}

func TestAttributionAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.Int64Range(0, 1000).Draw(t, "used")
		var claims []Claim
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			claims = append(claims, Claim{fmt.Sprint("node_", i), rapid.IntRange(0, 9).Draw(t, "pid"), rapid.Int64Range(0, 300).Draw(t, "held"), 0})
		}
		var processes []Process
		for pid := range rapid.IntRange(0, 12).Draw(t, "processes") {
			processes = append(processes, Process{pid, rapid.Int64Range(-1, 400).Draw(t, "size")})
		}
		a := Attribute(used, processes, claims)
		var held, all int64
		for i, p := range a.Portions {
			require.Equal(t, claims[i].Node, p.Node)
			require.Equal(t, claims[i].Held, p.Held, "a node's own figure is trusted as it is")
			require.GreaterOrEqual(t, p.Context, int64(0))
			held += p.Held
			all += p.Held + p.Context
		}
		require.Equal(t, all, a.Nodes)
		require.GreaterOrEqual(t, a.Nodes, held)
		require.Equal(t, max(0, used-a.Nodes), a.Unattributed)
	})
}

func TestStrangers(t *testing.T) {
	claims := []Claim{{"node_0", 0, 3e9, 8e9}, {"node_1", 0, 5e9, 5e9}}
	require.Equal(t, int64(20e9), Strangers(20e9, nil))
	require.Equal(t, int64(20e9-13e9-1.2e9), Strangers(20e9, claims), "peaks and contexts are the nodes'")
	require.Equal(t, int64(0), Strangers(13e9, claims))
	require.Equal(t, int64(0), Strangers(-1, nil))
}
