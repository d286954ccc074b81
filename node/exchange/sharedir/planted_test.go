package sharedir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// plantDescription writes a description with a chosen number, as an attacker would.
func plantDescription(t *testing.T, dir string, number int, w membership.Welcome) {
	t.Helper()
	data, err := json.Marshal(w)
	require.NoError(t, err)
	_, err = baseOf(dir).put(".", fmt.Sprintf("%s-%08d", descriptionStem, number), "json", data)
	require.NoError(t, err)
}

// A planted description with the highest possible number stops neither the coordinator nor joining workers.
func TestPlantedDescription(t *testing.T) {
	for name, change := range map[string]func(*membership.Welcome){
		"another experiment": func(w *membership.Welcome) { w.Experiment = "evil" },
		"another run":        func(w *membership.Welcome) { w.Run = "evil" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := newFolder(t)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, base), 0o755))
			evil := testWelcome()
			change(&evil)
			for _, number := range []int{maxRounds, maxRounds - 1, 5_000} {
				plantDescription(t, dir, number, evil)
			}
			require.NoError(t, Announce(dir, testWelcome()))
			next := testWelcome()
			next.Run = "run-2"
			require.NoError(t, Announce(dir, next))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			u, err := DialUplink(ctx, UplinkOptions{Dir: sharedOf(dir), Experiment: "exp", Worker: "cat", Poll: time.Millisecond})
			require.NoError(t, err)
			require.Equal(t, "run-2", u.(*uplink).run)
			require.NoError(t, u.Close())
		})
	}
}

// Messages planted under a worker's name with the last session number delay the worker only until that session counts
// as silent. This holds before it joins, while it is connected, and when the coordinator restarts.
func TestPlantedSession(t *testing.T) {
	dir := newFolder(t)
	admission := newBook()
	stop := serveAdmission(t, dir, admission, ServeOptions{Silence: 50 * time.Millisecond})
	plant := func(sides ...string) {
		for _, side := range sides {
			for _, verb := range []string{verbHello, verbDeliver, verbBeat} {
				e := envelope{Verb: verb, Session: lastSession, Number: maxRounds}
				_, err := newMailbox(baseOf(dir), testRun, "cat", side).post(e, membership.Hello{Protocol: membership.Protocol, Host: "evil"})
				require.NoError(t, err)
			}
		}
	}
	delivered := func(u membership.Uplink, n int64) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := u.Deliver(ctx, membership.Delivery{Protocol: membership.Protocol, Run: testRun, Outbox: "o", First: n,
			Events: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}})
		require.NoError(t, err)
		require.Equal(t, n, r.Acked)
	}
	connect := func(state string) membership.Uplink {
		u := dial(t, sharedOf(dir), "cat", state)
		require.Less(t, u.session, lastSession)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := u.Hello(ctx, membership.Hello{Protocol: membership.Protocol, Host: "evil"})
		require.NoError(t, err)
		return u
	}
	plant(up)
	poll(t, func() bool { return letters(t, dir, "cat", down) > 0 }) // the planted session counts
	u := connect("")
	delivered(u, 1)
	plant(up, down)
	delivered(u, 2)
	stop()
	plant(up, down)
	stop = serveAdmission(t, dir, admission, ServeOptions{Silence: 50 * time.Millisecond})
	delivered(u, 3)
	u = connect(t.TempDir())
	delivered(u, 4)
	stop()
	requireEvents(t, admission, 4)
}

// plantLetters writes n messages of a worker that can't be read, with one verb, session and number.
func plantLetters(t *testing.T, dir, worker string, n int, e envelope) {
	t.Helper()
	box := filepath.Join(dir, base, newMailbox(baseOf(dir), testRun, worker, up).dir)
	require.NoError(t, os.MkdirAll(box, 0o755))
	for i := range n {
		data := fmt.Appendf(nil, "evil %d", i)
		require.NoError(t, os.WriteFile(filepath.Join(box, nameOf(e.stem(), "json.zst", data)), data, 0o600))
	}
}

// No number of planted messages hides another one.
func TestPlantedLettersHideNone(t *testing.T) {
	dir := folderIn(t, quickDir(t)) // many files
	plantLetters(t, dir, "cat", 4200, envelope{Verb: verbDeliver, Session: 3, Number: 7})
	box := newMailbox(baseOf(dir), testRun, "cat", up)
	last, err := box.post(envelope{Verb: verbBeat, Session: 3, Number: 8}, nil)
	require.NoError(t, err)
	first, err := box.post(envelope{Verb: verbHello, Session: 2, Number: 9}, nil)
	require.NoError(t, err)
	list, err := box.letters()
	require.NoError(t, err)
	require.Len(t, list, 4202)
	require.Equal(t, first, list[0].name)
	require.Equal(t, last, list[4201].name)
}

// Planted messages before and after the worker's own, more than one look opens, delay its deliveries only.
func TestPlantedFlood(t *testing.T) {
	dir := folderIn(t, quickDir(t)) // many files
	admission := newBook()
	serveAdmission(t, dir, admission, ServeOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	u := dial(t, sharedOf(dir), "cat", "")
	_, err := u.Hello(ctx, membership.Hello{Protocol: membership.Protocol})
	require.NoError(t, err)
	plantLetters(t, dir, "cat", maxLetters+20, envelope{Verb: verbJoin, Session: u.session, Number: 1})
	plantLetters(t, dir, "cat", 20, envelope{Verb: verbJoin, Session: lastSession, Number: 1})
	for n := int64(1); n <= 3; n++ {
		r, err := u.Deliver(ctx, membership.Delivery{Protocol: membership.Protocol, Run: testRun, Outbox: "o", First: n,
			Events: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}})
		require.NoError(t, err)
		require.Equal(t, n, r.Acked)
	}
	requireEvents(t, admission, 3)
}

func TestNextSession(t *testing.T) {
	there := func(sessions ...int) (list []letter) {
		for _, s := range sessions {
			list = append(list, letter{session: s})
		}
		return list
	}
	for _, c := range []struct {
		remembered int
		there      []letter
		want       int
	}{
		{0, nil, 1},
		{3, there(7, 5), 8},
		{9, there(7, 5), 10},
		{3, there(7, lastSession), 8},
		{3, there(900, 1800, 2700, 3701), 2701},
		{lastSession, nil, 1},
		{lastSession - 1, there(lastSession), 1},
	} {
		require.Equal(t, c.want, nextSession(c.remembered, c.there), "%+v", c)
	}
}
