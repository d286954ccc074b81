package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
	"github.com/sapo-swarm/swarm/metrics/event"
)

func servePowerCuts() { powercut.Serve() }

// An acknowledged delivery survives any power cut, because the worker may delete it. The database always opens
// afterwards.
func TestPowerCutLosesNoDelivery(t *testing.T) {
	fs := powercut.Mount(t)
	path := filepath.Join(fs.Dir, "home", "swarm", "swarm.db")
	s := openStore(t, path, Options{WALLimit: 64 << 10, SeenInterval: 20 * time.Millisecond}) // so that the log is also checkpointed
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	events := annas(160)
	acks := []powercut.Promise{{Changes: fs.Now(t)}}
	for first := 0; first < len(events); first += 8 {
		record(t, s, aRound("node_0", first/8, float64(200+first), 0.5))
		acked := deliver(t, s, int64(first+1), events[first:first+8])
		acks = append(acks, powercut.Promise{Changes: fs.Now(t), Value: int(acked)})
	}
	require.NoError(t, s.Close())
	at := append(powercut.Places(acks), 0)
	for n := 0; n < acks[0].Changes; n += 9 { // while the file is created
		at = append(at, n)
	}
	fs.Log(t).Try(t, powercut.Trial{At: at, Random: 25, Seed: 23}, func(t *testing.T, n int, dir string) {
		promised := powercut.Promised(acks, n)
		s := openStore(t, filepath.Join(dir, "home", "swarm", "swarm.db"), Options{})
		defer s.Close()
		var verdict string
		require.NoError(t, s.db.QueryRow("PRAGMA integrity_check").Scan(&verdict))
		require.Equal(t, "ok", verdict)
		var acked, rounds int
		require.NoError(t, s.db.QueryRow("SELECT coalesce(max(acked), 0) FROM deliveries").Scan(&acked))
		require.GreaterOrEqual(t, acked, promised)
		require.NoError(t, s.db.QueryRow("SELECT count(*) FROM rounds WHERE node LIKE 'anna%'").Scan(&rounds))
		require.GreaterOrEqual(t, rounds, promised/2, "half of what was delivered are rounds")
	})
}

// A join survives any power cut after a flush.
func TestPowerCutForgetsNoJoining(t *testing.T) {
	fs := powercut.Mount(t)
	s := openStore(t, filepath.Join(fs.Dir, "home", "swarm.db"), Options{})
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	joined := []powercut.Promise{{Changes: fs.Now(t)}}
	const nodes = 12
	for n := range nodes {
		record(t, s, event.Event{Run: testRun, Type: event.TypeJoin, Time: float64(300 + n), Node: fmt.Sprint("anna_", n), Worker: "anna", RoundIndex: 2})
		joined = append(joined, powercut.Promise{Changes: fs.Now(t), Value: n + 1})
	}
	fs.Log(t).Try(t, powercut.Trial{At: powercut.Places(joined), Random: 5, Seed: 23}, func(t *testing.T, n int, dir string) {
		s := openStore(t, filepath.Join(dir, "home", "swarm.db"), Options{})
		defer s.Close()
		var known int
		require.NoError(t, s.db.QueryRow("SELECT count(*) FROM nodes WHERE worker = 'anna'").Scan(&known))
		require.GreaterOrEqual(t, known, powercut.Promised(joined, n))
	})
}
