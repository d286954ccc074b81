package membership

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
)

func TestMain(m *testing.M) {
	powercut.Serve()
	os.Exit(m.Run())
}

// After any power failure an outbox opens and has every event that was synced and not acknowledged, each under the
// number that the coordinator has seen.
func TestPowerCutLosesNoSyncedEvent(t *testing.T) {
	fs := powercut.Mount(t)
	dir := filepath.Join(fs.Dir, "runs", "run-1", "outbox")
	o := outbox(t, dir)
	const all, full = 120, 40_000 // events; bytes of a full segment, which has about 19 of them
	o.kept, o.full = full, full
	name := o.state.Name
	synced, acked := []powercut.Promise{{Changes: fs.Now(t)}}, []powercut.Promise{{Changes: fs.Now(t)}}
	note := func(to *[]powercut.Promise, value int64) {
		*to = append(*to, powercut.Promise{Changes: fs.Now(t), Value: int(value)})
	}
	for n := 1; n <= all; n++ {
		e := told(n)
		e.Message = strings.Repeat("x", full/20)
		require.NoError(t, o.Append(e))
		if n == 28 || n == 84 { // in the middle of a segment
			fs.FailSyncs(t, 1)
			require.Error(t, o.Sync())
		}
		if n%4 == 0 {
			require.NoError(t, o.Sync())
			note(&synced, int64(n))
		}
		if n%10 == 0 {
			d, err := o.Next(20, deliverBytes)
			require.NoError(t, err)
			note(&synced, int64(n))
			last := d.First + int64(len(d.Events)) - 1
			note(&acked, last) // the coordinator has them
			require.NoError(t, o.Ack(last))
		}
		if n == 70 { // a new process
			require.NoError(t, o.Close())
			o = outbox(t, dir)
			o.kept, o.full = full, full
		}
	}
	require.NoError(t, o.Close())
	at := append(powercut.Places(synced), powercut.Places(acked)...)
	fs.Log(t).Try(t, powercut.Trial{At: at, Random: 60, Seed: 23}, func(t *testing.T, n int, dir string) {
		o := outbox(t, filepath.Join(dir, "runs", "run-1", "outbox"))
		defer o.Close()
		if n < synced[0].Changes {
			return // nothing was guaranteed
		}
		require.Equal(t, name, o.state.Name)
		had := powercut.Promised(acked, n)
		before, newest := o.state, o.newest()
		require.NoError(t, o.Ack(int64(had)))
		require.Equal(t, name, o.state.Name, "it agrees with what the coordinator has: %d; state %+v, newest %d", had, before, newest)
		list := empty(t, o)
		require.GreaterOrEqual(t, had+len(list), powercut.Promised(synced, n))
		require.Equal(t, upTo(had+1, had+len(list)), list)
	})
}

// Invitations, enrolled workers and banned workers are in the registry after any power failure.
func TestPowerCutKeepsTheRegistry(t *testing.T) {
	fs := powercut.Mount(t)
	dir := filepath.Join(fs.Dir, "home", "workers")
	r, err := OpenRegistry(dir)
	require.NoError(t, err)
	made := []powercut.Promise{{Changes: fs.Now(t)}}
	banned := []powercut.Promise{{Changes: fs.Now(t)}}
	const all = 12
	for n := 1; n <= all; n++ {
		name := fmt.Sprintf("w%d", n)
		token, err := r.Invite(name, true)
		require.NoError(t, err)
		_, err = r.Enrol(Apply(token, name).Enrol)
		require.NoError(t, err)
		made = append(made, powercut.Promise{Changes: fs.Now(t), Value: n})
		if n%3 == 0 {
			require.NoError(t, r.Ban(name, "spam"))
			banned = append(banned, powercut.Promise{Changes: fs.Now(t), Value: n})
		}
	}
	fs.Log(t).Try(t, powercut.Trial{At: append(powercut.Places(made), powercut.Places(banned)...), Random: 100, Seed: 23},
		func(t *testing.T, n int, dir string) {
			r, err := OpenRegistry(filepath.Join(dir, "home", "workers"))
			require.NoError(t, err)
			b, err := r.read()
			require.NoError(t, err)
			for i := 1; i <= powercut.Promised(made, n); i++ {
				require.NotNil(t, b.worker(fmt.Sprintf("w%d", i)))
			}
			for i := 3; i <= powercut.Promised(banned, n); i += 3 {
				require.NotEmpty(t, b.worker(fmt.Sprintf("w%d", i)).Banned)
			}
		})
}
