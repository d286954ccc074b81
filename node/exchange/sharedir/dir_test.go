package sharedir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/exchangetest"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

func TestConformance(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm { return newSwarm(t, false) })
}

// With Compat, the exchange still keeps its contract.
func TestConformanceCompat(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm {
		if strings.HasSuffix(t.Name(), "/Names") || strings.HasSuffix(t.Name(), "/LargeBatch") {
			t.Skip("the predecessor's files can't have such names, and Go's indented JSON of 8 MB takes seconds")
		}
		return newSwarm(t, true)
	})
}

const testRun = "run-1"

type folderSwarm struct {
	dir, state string
	compat     bool
}

func newSwarm(t *testing.T, compat bool) *folderSwarm {
	return &folderSwarm{dir: newFolder(t), state: t.TempDir(), compat: compat}
}

// newFolder announces an experiment in a new shared folder and returns the experiment's folder.
func newFolder(t testing.TB) string {
	t.Helper()
	return folderIn(t, t.TempDir())
}

func folderIn(t testing.TB, shared string) string {
	t.Helper()
	dir, err := Folder(shared, "exp")
	require.NoError(t, err)
	require.NoError(t, Announce(dir, testWelcome()))
	return dir
}

func testWelcome() membership.Welcome {
	return membership.Welcome{Protocol: membership.Protocol, Run: testRun, Experiment: "exp", Config: json.RawMessage(`{"seed":1}`), Version: "test"}
}

func (s *folderSwarm) Join(t *testing.T, node string) exchange.Exchange {
	return open(t, Options{Dir: s.dir, Run: testRun, Node: node, State: filepath.Join(s.state, encode(node)), Compat: s.compat})
}

func (s *folderSwarm) Plant(t *testing.T, round int, node string, data []byte) {
	t.Helper()
	_, err := baseOf(s.dir).put(blockPath(testRun, blockOf(round)), rolloutStem(node, round, newProcessID()), "json.zst", pack(data))
	require.NoError(t, err)
}

func open(t testing.TB, o Options) *Dir {
	t.Helper()
	if o.Poll == 0 {
		o.Poll = 50 * time.Millisecond
	}
	d, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func batchOf(node string, round int, mark string) exchange.Batch {
	answer := "42"
	return exchange.Batch{Version: exchange.Version, Node: node, Round: round, Rollouts: []exchange.Rollout{{
		Question: "6 * 7? " + mark, Answer: &answer, Metadata: json.RawMessage(`{"source_dataset":"basic_arithmetic"}`),
		Completions: []exchange.Completion{{Text: "<answer>42</answer>", Terminated: true}, {Text: "?", Terminated: true}},
	}}}
}

func share(t testing.TB, d *Dir, round int) {
	t.Helper()
	require.NoError(t, d.Publish(t.Context(), batchOf(d.o.Node, round, fmt.Sprint(round))))
}

// gatherAll waits up to 20 s for all peers.
func gatherAll(t testing.TB, d *Dir, round int, peers ...string) []*exchange.Received {
	t.Helper()
	got, err := d.Gather(t.Context(), round, peers, exchange.Barrier{Deadline: 20 * time.Second, Limit: 20 * time.Second})
	require.NoError(t, err)
	for i, peer := range peers {
		require.NotNil(t, got[i], "%s in round %d", peer, round)
	}
	return got
}

// lookNow gathers without waiting.
func lookNow(t testing.TB, d *Dir, round int, peer string) *exchange.Received {
	t.Helper()
	got, err := d.Gather(t.Context(), round, []string{peer}, exchange.Barrier{})
	require.NoError(t, err)
	return got[0]
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	shared := t.TempDir()
	dir, err := Folder(shared, "exp")
	require.NoError(t, err)
	_, err = Open(Options{Dir: dir, Run: "r", Node: "a"})
	require.ErrorContains(t, err, "is missing")
	require.ErrorContains(t, err, "Try: mount it again")
	for _, name := range []string{"", "..", "a/b", "a\nb", "é", strings.Repeat("x", 65)} {
		_, err := Folder(shared, name)
		require.Error(t, err, name)
		require.Contains(t, err.Error(), "Try:")
	}
	require.NoError(t, Announce(dir, testWelcome()))
	for _, o := range []Options{{Dir: dir, Node: "a"}, {Dir: dir, Run: "r"}, {Dir: dir, Run: "r", Node: strings.Repeat("x", 129)}} {
		_, err := Open(o)
		require.ErrorContains(t, err, "is not a valid name")
	}
	other := testWelcome()
	other.Experiment = "other"
	require.ErrorContains(t, Announce(dir, other), "belongs to experiment exp, not other")
	require.ErrorContains(t, Announce(filepath.Join(shared, "away", "experiments", "exp"), testWelcome()), "is missing")
	require.NoDirExists(t, filepath.Join(shared, "away"))
}

// A sync program's copy under another name counts as the batch, once. The original may never arrive.
func TestCopiesCount(t *testing.T) {
	for _, rename := range []func(stem, ext string) string{
		func(stem, ext string) string { return stem + " (1)" + ext },
		func(stem, ext string) string { return stem + ext + " (2)" },
		func(stem, ext string) string { return "Copy of " + stem + ext },
		func(stem, ext string) string { return stem + " (conflicted copy 2026-01-01)" + ext },
		func(stem, ext string) string { return stem + ".sync-conflict-20260101-101010-ABCDEFG" + ext },
	} {
		dir := newFolder(t)
		a, b := open(t, Options{Dir: dir, Run: testRun, Node: "a"}), open(t, Options{Dir: dir, Run: testRun, Node: "b"})
		share(t, a, 0)
		folder := filepath.Join(dir, base, blockPath(testRun, 0))
		names, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, names, 1)
		name := names[0].Name()
		stem, ext, _ := strings.Cut(name, ".")
		copied := rename(stem, "."+ext)
		data, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, copied), data, 0o600))
		require.Equal(t, "a", lookNow(t, b, 0, "a").Node, copied)
		require.NoError(t, os.Remove(filepath.Join(folder, name)))
		require.NotNil(t, lookNow(t, b, 0, "a"), copied)
		recent, err := b.Recent(t.Context(), exchange.Window{Peers: []string{"a"}, Limit: 8})
		require.NoError(t, err)
		require.Len(t, recent, 1, copied)
	}
}

// If a node has two batches for a round, all readers choose the same one, in whatever order they arrive.
func TestTwoBatchesOfARound(t *testing.T) {
	for seed := range 8 {
		dir := newFolder(t)
		s := &folderSwarm{dir: dir}
		b := open(t, Options{Dir: dir, Run: testRun, Node: "b"})
		texts := []string{fmt.Sprint("x", seed), fmt.Sprint("y", seed)}
		if seed%2 == 1 {
			texts[0], texts[1] = texts[1], texts[0]
		}
		want := ""
		for _, mark := range texts {
			data, err := exchange.Encode(batchOf("a", 0, mark))
			require.NoError(t, err)
			s.Plant(t, 0, "a", data)
			if hash := hashOf(pack(data)); want == "" || hash < want {
				want = hash
			}
		}
		got := lookNow(t, b, 0, "a")
		data, err := exchange.Encode(got.Batch)
		require.NoError(t, err)
		require.Equal(t, want, hashOf(pack(data)))
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for _, name := range []string{"node_1", "a.b", "a", "A", "*", ">", "node 1", "../x", "ü", "a-b", "a\nb", "=61", strings.Repeat("ü", 60)} {
		part := encode(name)
		require.NotContains(t, part, "-")
		require.Equal(t, strings.ToLower(part), part)
		require.LessOrEqual(t, len(part), longPart)
		if back, ok := decode(part); len(name) < 32 {
			require.True(t, ok, name)
			require.Equal(t, name, back)
		}
		f, ok := parseRollout(nameOf(rolloutStem(name, 12, "0123abcd"), "json.zst", []byte("x")))
		require.True(t, ok, name)
		require.Equal(t, rolloutFile{entry: f.entry, node: part, round: 12, process: "0123abcd"}, f)
		require.LessOrEqual(t, len(nameOf(rolloutStem(name, maxRounds, "0123abcd"), "json.zst", make([]byte, 1))), maxName)
	}
	require.NotEqual(t, encode("A"), encode("a"))
}
