package natsbus

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

func TestMain(m *testing.M) {
	powercut.Serve()
	os.Exit(m.Run())
}

func anybody(string, string) error { return nil }

// An accepted offer is in the stream after any power failure of the coordinator, because the worker's node offers it
// only once. NATS doesn't sync folders, so this holds only on file systems with a journal.
func TestPowerCutLosesNoOffer(t *testing.T) {
	fs := powercut.Mount(t)
	start := func(t *testing.T, home string) *Server {
		server, err := Start(ServerOptions{Dir: filepath.Join(home, "runs", "run", "exchange"), Admit: anybody})
		require.NoError(t, err)
		t.Cleanup(server.Shutdown)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, server.CreateStream(ctx, "run"))
		return server
	}
	server := start(t, fs.Dir)
	taken := []powercut.Promise{{Changes: fs.Now(t)}}
	const rounds = 16
	for round := range rounds {
		data, err := exchange.Encode(batch("anna_0", round, "of anna"))
		require.NoError(t, err)
		require.NoError(t, server.StoreOffer(t.Context(), "run", membership.Offer{Node: "anna_0", Round: round, Data: data}))
		taken = append(taken, powercut.Promise{Changes: fs.Now(t), Value: round + 1})
		if round == 9 {
			require.NoError(t, server.Purge(t.Context(), "run", 4))
		}
	}
	server.Shutdown()
	subjects, err := newSubjects("run")
	require.NoError(t, err)
	fs.Log(t).Try(t, powercut.Trial{At: powercut.Places(taken), Random: 16, Seed: 23, Journaled: true}, func(t *testing.T, n int, dir string) {
		server := start(t, dir)
		defer server.Shutdown()
		stream, err := server.js.Stream(t.Context(), subjects.stream)
		require.NoError(t, err)
		for round := range powercut.Promised(taken, n) {
			if round < 4 && n >= taken[10].Changes {
				continue // it was purged or about to be
			}
			found, err := stream.GetLastMsgForSubject(t.Context(), subjects.rollouts(round, "anna_0"))
			require.NoError(t, err, "round %d of %d", round, powercut.Promised(taken, n))
			_, err = exchange.Decode(found.Data, "anna_0", round)
			require.NoError(t, err)
		}
	})
}

// Invitations depend on the key. It is on disk before its fingerprint is handed out.
func TestPowerCutKeepsTheKey(t *testing.T) {
	fs := powercut.Mount(t)
	_, fingerprint, err := Certificate(filepath.Join(fs.Dir, "home", "workers"), []string{"localhost"})
	require.NoError(t, err)
	made := fs.Now(t)
	fs.Log(t).Try(t, powercut.Trial{At: []int{made, made, made, 0, 1}, Random: 30, Seed: 23}, func(t *testing.T, n int, dir string) {
		_, again, err := Certificate(filepath.Join(dir, "home", "workers"), []string{"localhost"})
		require.NoError(t, err)
		if n == made {
			require.Equal(t, fingerprint, again)
		}
	})
}
