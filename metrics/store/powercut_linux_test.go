package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
)

func servePowerCuts() { powercut.Serve() }

// A delivery that was acknowledged is in the database after any power cut, for the worker has deleted it; and the database always opens.
func TestPowerCutLosesNoDelivery(t *testing.T) {
	fs := powercut.Mount(t)
	path := filepath.Join(fs.Dir, "home", "swarm", "swarm.db")
	s := openStore(t, path, Options{Warn: func(error) {}, WALLimit: 64 << 10, SeenInterval: 20 * time.Millisecond}) // so that the log is emptied, too
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	events := annas(160)
	type ack struct {
		changes int
		acked   int64
	}
	acks := []ack{{fs.Now(t), 0}}
	for first := 0; first < len(events); first += 8 {
		record(t, s, aRound("node_0", first/8, float64(200+first), 0.5))
		acked := deliver(t, s, int64(first+1), events[first:first+8])
		acks = append(acks, ack{fs.Now(t), acked})
	}
	require.NoError(t, s.Close())
	log, last := fs.Log(t), fs.Now(t)

	r := rand.New(rand.NewPCG(23, 1))
	cuts := []int{0, last}
	for _, a := range acks {
		cuts = append(cuts, a.changes)
	}
	for range 25 {
		cuts = append(cuts, r.IntN(last), r.IntN(acks[0].changes+1)) // also while the file is begun
	}
	for i, n := range cuts {
		fate := powercut.Fate{Journaled: i%3 == 1}
		if i%2 == 1 {
			fate.Random = r
		}
		promised := int64(0)
		for _, a := range acks {
			if a.changes <= n {
				promised = a.acked
			}
		}
		dir := t.TempDir()
		require.NoError(t, log.Cut(n, fate, dir))
		left := filepath.Join(dir, "home", "swarm", "swarm.db")
		s, err := Open(t.Context(), left, Options{})
		require.NoError(t, err, "cut after %d changes of %d, %+v", n, last, fate)
		var verdict string
		require.NoError(t, s.db.QueryRow("PRAGMA integrity_check").Scan(&verdict))
		require.Equal(t, "ok", verdict)
		var acked int64
		require.NoError(t, s.db.QueryRow("SELECT coalesce(max(acked), 0) FROM deliveries").Scan(&acked))
		require.GreaterOrEqual(t, acked, promised, "cut after %d changes of %d, %+v", n, last, fate)
		var rounds int64
		require.NoError(t, s.db.QueryRow("SELECT count(*) FROM rounds WHERE node LIKE 'anna%'").Scan(&rounds))
		require.GreaterOrEqual(t, rounds, promised/2, "the rounds of what is acknowledged")
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(dir))
	}
}
