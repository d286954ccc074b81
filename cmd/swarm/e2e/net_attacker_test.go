package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/task"
)

// attacker is a hostile worker: honest up to its assignments, hostile afterward.
type attacker struct {
	*simWorker
	raw   *nats.Conn
	tasks *task.Set
	dice  *rand.Rand

	mu       sync.Mutex
	outcomes map[string]map[string]int // counts by kind and outcome
	held     []*nats.Conn              // connections of newcomers
}

func newAttacker(t *testing.T, invitation, name string) *attacker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := joinSimulated(ctx, invitation, name, t.TempDir(), 2)
	require.NoError(t, err)
	a := &attacker{simWorker: w, outcomes: map[string]map[string]int{}, dice: rand.New(rand.NewPCG(*hostileSeed, 2))}
	a.tasks, err = task.Open(w.config.Tasks)
	require.NoError(t, err)
	a.raw = a.connect(t, w.credentials.Worker, w.credentials.Secret)
	return a
}

// connect opens a connection of the attacker's own.
func (a *attacker) connect(t *testing.T, user, password string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("tls://"+a.invitation.Hosts[0], nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.TLSHandshakeFirst(),
		nats.UserInfo(user, password), nats.CustomInboxPrefix("_INBOX_w."+user), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { a.note("permissions", fateOf(err)) }))
	require.NoError(t, err)
	return conn
}

func (a *attacker) close() {
	a.raw.Close()
	for _, conn := range a.held {
		conn.Close()
	}
	_ = a.simWorker.close()
}

// run sends that many messages, of all kinds in turn, from several goroutines.
func (a *attacker) run(t *testing.T, messages int, memory *memorySeries) {
	t.Helper()
	kinds := a.kinds()
	names := slices.Sorted(maps.Keys(kinds))
	work := make(chan int)
	var group sync.WaitGroup
	for i := range 8 {
		dice := rand.New(rand.NewPCG(*hostileSeed, uint64(i)))
		group.Go(func() {
			for n := range work {
				if a.unanswered() > messages/100+8 {
					continue // skip the rest, which would only take time
				}
				name := names[n%len(names)]
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a request without an answer by then counts as unanswered
				a.note(name, fateOf(kinds[name](ctx, dice)))
				cancel()
			}
		})
	}
	every := max(1, messages/200)
	for n := range messages {
		if n%every == 0 {
			require.NoError(t, memory.sample(n))
		}
		work <- n
	}
	close(work)
	group.Wait()
	require.NoError(t, memory.sample(messages))
}

func (a *attacker) note(kind, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.outcomes[kind] == nil {
		a.outcomes[kind] = map[string]int{}
	}
	a.outcomes[kind][outcome]++
}

// fateOf returns a message's outcome, in a word or two.
func fateOf(err error) string {
	var refusal *membership.Refusal
	switch {
	case err == nil:
		return "taken"
	case errors.As(err, &refusal):
		return "refused: " + refusal.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "no answer"
	case errors.Is(err, nats.ErrMaxPayload):
		return "too large to send"
	case errors.Is(err, nats.ErrPermissionViolation), strings.Contains(strings.ToLower(err.Error()), "permissions violation"):
		return "not permitted"
	case errors.Is(err, nats.ErrAuthorization):
		return "not let in"
	}
	return fmt.Sprintf("%.60s", err)
}

// unanswered counts the worker's own requests that got no answer in time.
func (a *attacker) unanswered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for kind, outcomes := range a.outcomes {
		if kind != "JetStream's API" && kind != "reads" && kind != "noise as requests" && kind != "sybils" {
			count += outcomes["no answer"]
		}
	}
	return count
}

func (a *attacker) table() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(a.outcomes)) {
		fmt.Fprintf(&b, "%-22s", kind)
		for _, outcome := range slices.Sorted(maps.Keys(a.outcomes[kind])) {
			fmt.Fprintf(&b, "  %s %d", outcome, a.outcomes[kind][outcome])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
