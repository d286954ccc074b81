package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// What make net-test sets. The defaults are for every test run.
var (
	hostileMessages = flag.Int("hostile.messages", 5000, "messages of the hostile worker")
	hostileSeed     = flag.Uint64("hostile.seed", 1, "seed of the hostile worker")
	hostileRounds   = flag.Int("hostile.rounds", 60, "rounds of the honest nodes that are compared, at most")
	hostileGrowth   = flag.Float64("hostile.growth", 24, "megabytes by which the coordinator may grow in the second half of the attack")
)

const hostileDeadline = 4 // seconds: barrier_deadline

// Two workers with good credentials do what they should not, one loudly and of every kind, one quietly, while two honest nodes train beside: the coordinator stays up and its
// memory flat; the honest nodes' rewards, losses and weights are to the last bit those of a run without them; and the database has nothing of theirs
// but what their own nodes might say.
func TestHostileWorker(t *testing.T) {
	t.Parallel()
	args := func(rounds int) []string {
		return append([]string{"up", "--name", "e", "-o", "json", "--listen", "127.0.0.1:0"}, tinyRun("--rounds", strconv.Itoa(rounds), "--seed", "5",
			"--checkpoint-every", "5", "--set", fmt.Sprintf("barrier_deadline=%d", hostileDeadline))...)
	}
	home := t.TempDir()
	r := startProgram(t, home, args(1000000)...)
	invitation := invitationOf(t, r)
	a, quiet := newAttacker(t, invitation, "mallory"), newAttacker(t, invitation, "eve")
	poisoning, stop := context.WithCancel(t.Context())
	var poisoned sync.WaitGroup
	poisoned.Go(func() { quiet.poison(poisoning) })
	memory := &memorySeries{pid: r.cmd.Process.Pid}
	began := time.Now()
	a.run(t, *hostileMessages, memory)
	require.Less(t, a.unanswered(), *hostileMessages/100+8, "requests that nobody answered:\n%s", a.table())
	took := time.Since(began)
	a.close()
	rounds := 0
	require.NoError(t, pollFor(patience, "8 rounds of the honest nodes", func() (bool, error) {
		rows, err := tableRows(home, `SELECT min(rounds_done) AS r FROM nodes WHERE run = 'e-1' AND worker = ''`)
		if err != nil || len(rows) != 1 {
			return false, err
		}
		_, err = fmt.Sscanf(rows[0], "r=%d", &rounds)
		return rounds >= 8, err
	}))
	stop()
	poisoned.Wait()
	quiet.close()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+int(syscall.SIGTERM), waitFor(t, r.cmd), r.stderr)
	t.Logf("%d messages in %.1f s, beside %d rounds of honest nodes\n%s", *hostileMessages, took.Seconds(), rounds, a.table())
	t.Logf("within its rates, in time:\n%s", quiet.table())
	t.Log(memory.String())
	require.Less(t, memory.growth(), *hostileGrowth*1e6, "the coordinator's memory")

	rounds = min(rounds, *hostileRounds)
	calm := t.TempDir()
	require.Zero(t, finish(t, command(t, calm, args(rounds)...)).code)
	for what, query := range map[string]string{
		"rounds":       strings.Replace(roundsQuery, "late, ", "", 1), // the deadline may pass without the attacker's
		"task rewards": `SELECT node, round, task, completions, reward_sum FROM task_rewards WHERE run = 'e-1' ORDER BY round, node, task`,
		"honest peers": `SELECT node, round, peer, available, rejected, filtered, used FROM peers WHERE run = 'e-1' AND peer IN ('node_0', 'node_1')
ORDER BY round, node, peer`,
		"weights": `SELECT node, round, weight_hash FROM checkpoints WHERE run = 'e-1' AND round % 5 = 0 ORDER BY node, round`,
	} {
		query = strings.Replace(query, "WHERE run = 'e-1'", fmt.Sprintf("WHERE run = 'e-1' AND node IN ('node_0', 'node_1') AND round < %d", rounds), 1)
		require.NoError(t, sameRows(what, query, calm, home))
	}
	left(t, home)
}

// left checks what the database has of the attackers.
func left(t *testing.T, home string) {
	t.Helper()
	rows, err := tableRows(home, `SELECT node FROM nodes WHERE run = 'e-1' AND worker = '' ORDER BY node`)
	require.NoError(t, err)
	require.Equal(t, []string{"node=node_0 ", "node=node_1 "}, rows)
	rows, err = tableRows(home, `SELECT DISTINCT worker AS w FROM nodes WHERE worker != '' UNION SELECT DISTINCT worker FROM workers`)
	require.NoError(t, err)
	require.Equal(t, []string{"w=eve ", "w=mallory "}, rows)
	rows, err = tableRows(home, `SELECT count(*) AS c FROM rounds WHERE reward < 0 OR reward > 1 OR round < 0 OR round > 1000000`)
	require.NoError(t, err)
	require.Equal(t, []string{"c=0 "}, rows)
	rows, err = tableRows(home, `SELECT used FROM peers JOIN nodes ON nodes.run = peers.run AND nodes.node = peers.peer
WHERE nodes.worker != '' AND used > 0 AND peers.node IN ('node_0', 'node_1')`)
	require.NoError(t, err)
	require.Empty(t, rows, "an honest node learnt from an attacker")
	rows, err = tableRows(home, `SELECT reason, count(*) AS batches FROM peers JOIN nodes ON nodes.run = peers.run AND nodes.node = peers.peer
WHERE nodes.worker = 'eve' AND rejected > 0 AND peers.node IN ('node_0', 'node_1') GROUP BY reason ORDER BY reason`)
	require.NoError(t, err)
	require.NotEmpty(t, rows, "nothing poisonous reached an honest node")
	t.Logf("what the honest nodes refused:\n%s", strings.Join(rows, "\n"))
}

// attacker is a hostile worker: honest up to its seats, then no more.
type attacker struct {
	*simWorker
	raw   *nats.Conn
	tasks *task.Set
	dice  *rand.Rand

	mu       sync.Mutex
	outcomes map[string]map[string]int // by kind and by what became of it
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

// connect is a client of the attacker's own.
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
	_ = a.simWorker.close()
}

// run sends so many messages, of all kinds in turn, from several goroutines.
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
					continue // the rest would only take long
				}
				name := names[n%len(names)]
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a request that is not answered by then is not
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

// fateOf is what became of a message, in a word or two.
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

// unanswered are the worker's own requests that got no answer within their time.
func (a *attacker) unanswered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for kind, outcomes := range a.outcomes {
		if kind != "JetStream's API" && kind != "reads" && kind != "noise as requests" {
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

// attack sends one message.
type attack func(ctx context.Context, dice *rand.Rand) error

func (a *attacker) kinds() map[string]attack {
	kinds := map[string]attack{
		"flood of events": a.flood, "events that lie": a.lies, "beats that lie": a.beat, "joins": a.joins, "greetings": a.greetings,
		"others' subjects": a.others, "JetStream's API": a.api, "listening": a.listen, "wants": a.wants, "noise as requests": a.noise,
		"wrong secrets": a.intrude, "reads": a.reads,
	}
	for name, change := range tampers() {
		kinds["offer: "+name] = func(ctx context.Context, dice *rand.Rand) error {
			seat := a.seats[dice.IntN(len(a.seats))]
			return a.offer(ctx, dice, seat.Node, seat.From+dice.IntN(40), change)
		}
	}
	return kinds
}

// tamper changes a plausible batch before it is offered; nil: its encoding is.
type tamper func(*rand.Rand, *exchange.Batch, *membership.Offer)

func tampers() map[string]tamper {
	return map[string]tamper{
		"giant":         func(dice *rand.Rand, _ *exchange.Batch, o *membership.Offer) { o.Data = make([]byte, dice.IntN(1<<20)) },
		"cut short":     nil,
		"forged sender": func(_ *rand.Rand, b *exchange.Batch, o *membership.Offer) { b.Node, o.Node = "node_0", "node_0" },
		"sender inside": func(_ *rand.Rand, b *exchange.Batch, _ *membership.Offer) { b.Node = "node_1" },
		"future round": func(dice *rand.Rand, b *exchange.Batch, o *membership.Offer) {
			b.Round += dice.IntN(1 << 40)
			o.Round = b.Round
		},
		"replayed": func(dice *rand.Rand, b *exchange.Batch, _ *membership.Offer) { b.Round += 1 + dice.IntN(3) },
		"wrong answer key": func(_ *rand.Rand, b *exchange.Batch, _ *membership.Offer) {
			for i := range b.Rollouts {
				wrong := "1000000"
				b.Rollouts[i].Answer = &wrong
				b.Rollouts[i].Completions[0].Text = "<answer>1000000</answer>"
			}
		},
		"lying metadata": func(_ *rand.Rand, b *exchange.Batch, _ *membership.Offer) {
			for i := range b.Rollouts {
				b.Rollouts[i].Metadata = json.RawMessage(`{"source_dataset":"basic_arithmetic","difficulty":{"num_terms":[1,1]},"reward":1}`)
			}
		},
		"other questions": func(dice *rand.Rand, b *exchange.Batch, _ *membership.Offer) {
			for i := range b.Rollouts {
				b.Rollouts[i].Question = fmt.Sprintf("What is %d?", dice.IntN(1000))
			}
		},
		"too many rollouts": func(_ *rand.Rand, b *exchange.Batch, _ *membership.Offer) {
			for range 50 {
				b.Rollouts = append(b.Rollouts, b.Rollouts[0])
			}
		},
		"too many completions": func(_ *rand.Rand, b *exchange.Batch, _ *membership.Offer) {
			for range 100 {
				b.Rollouts[0].Completions = append(b.Rollouts[0].Completions, b.Rollouts[0].Completions[0])
			}
		},
		"all wrong": func(*rand.Rand, *exchange.Batch, *membership.Offer) {}, // may be taken, and teaches nothing
	}
}

// poison does what the rules allow: it beats, and offers what it should not in time and within its rates, so that the coordinator can't tell
// and the nodes have to.
func (a *attacker) poison(ctx context.Context) {
	all := tampers()
	kinds := []string{"wrong answer key", "lying metadata", "other questions", "all wrong"}
	offered := 0
	for ctx.Err() == nil {
		var nodes []membership.Progress
		for _, s := range a.seats {
			nodes = append(nodes, membership.Progress{Node: s.Node, Round: max(s.From, offered), State: event.StateGenerating})
		}
		roster, err := a.uplink.Beat(ctx, membership.Beat{
			Protocol: membership.Protocol, Run: a.welcome.Run, Process: a.name, Time: event.Now(), Nodes: nodes,
		})
		if err != nil {
			a.note("beat", fateOf(err))
		}
		for round := max(offered+1, roster.Round, a.seats[0].From); err == nil && round <= roster.Round+1; round++ {
			for i, seat := range a.seats {
				kind := kinds[(round+i)%len(kinds)]
				a.note("offer: "+kind, fateOf(a.offer(ctx, a.dice, seat.Node, round, all[kind])))
			}
			offered = round
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// plausible is a batch as an honest node of the attacker's would share it, but that all its answers are wrong: it has no advantage.
func (a *attacker) plausible(node string, round int) (exchange.Batch, error) {
	b := exchange.Batch{Version: exchange.Version, Node: node, Round: round}
	for i := range a.config.NumTrainSamples {
		item, err := a.tasks.Draw(sapo.Seed(a.config.Seed, node, round, sapo.PurposeQuestion, i))
		if err != nil {
			return b, err
		}
		r := exchange.Rollout{Question: item.Question, Answer: item.Answer, Metadata: item.Metadata}
		for range a.config.NumGenerations {
			r.Completions = append(r.Completions, exchange.Completion{Text: "<answer>no</answer>", Terminated: true})
		}
		b.Rollouts = append(b.Rollouts, r)
	}
	return b, nil
}

// offer offers a plausible batch that was tampered with.
func (a *attacker) offer(ctx context.Context, dice *rand.Rand, node string, round int, change tamper) error {
	batch, err := a.plausible(node, round)
	if err != nil {
		return err
	}
	o := membership.Offer{Node: node, Round: round}
	if change != nil {
		change(dice, &batch, &o)
	}
	if o.Data == nil {
		if o.Data, err = json.Marshal(batch); err != nil {
			return err
		}
	}
	if change == nil {
		o.Data = o.Data[:dice.IntN(len(o.Data))]
		for range dice.IntN(4) {
			o.Data = append(o.Data, byte(dice.Uint32()))
		}
	}
	m := a.message("offer", o.Data)
	m.Header.Set("Swarm-Node", o.Node)
	m.Header.Set("Swarm-Round", strconv.Itoa(o.Round))
	return a.ask(ctx, m)
}

func (a *attacker) message(verb string, data []byte) *nats.Msg {
	m := nats.NewMsg("swarm.w." + a.credentials.Worker + "." + verb)
	m.Header.Set("Swarm-Secret", a.credentials.Secret)
	m.Header.Set("Swarm-Protocol", strconv.Itoa(membership.Protocol))
	m.Data = data
	return m
}

func (a *attacker) ask(ctx context.Context, m *nats.Msg) error {
	answer, err := a.raw.RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	if answer.Header.Get("Swarm-Refused") != "" {
		var refusal membership.Refusal
		if err := json.Unmarshal(answer.Data, &refusal); err != nil {
			return fmt.Errorf("a refusal that can't be read: %w", err)
		}
		return &refusal
	}
	return nil
}

// deliver sends events as an outbox of a name of its own.
func (a *attacker) deliver(ctx context.Context, dice *rand.Rand, events ...any) error {
	d := membership.Delivery{Protocol: membership.Protocol, Run: a.welcome.Run, Outbox: fmt.Sprintf("o%d", dice.IntN(1<<30)), First: 1}
	if dice.IntN(8) == 0 {
		d.First = int64(dice.Uint64())
	}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		d.Events = append(d.Events, data)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return a.ask(ctx, a.message("deliver", data))
}

func (a *attacker) flood(ctx context.Context, dice *rand.Rand) error {
	events := make([]any, 1+dice.IntN(2*membership.MaxDeliveryEvents))
	for i := range events {
		events[i] = event.Event{Type: event.TypeState, Time: event.Now(), Node: a.seats[0].Node, State: event.StateGenerating, RoundIndex: dice.IntN(1000)}
	}
	return a.deliver(ctx, dice, events...)
}

func (a *attacker) lies(ctx context.Context, dice *rand.Rand) error {
	node, own := []string{"node_0", "node_1", "", a.seats[0].Node, "../../x"}[dice.IntN(5)], a.seats[1].Node
	now := event.Now()
	lies := []any{
		event.Event{Type: event.TypeRound, Time: now, Node: "node_0", Round: &event.Round{Round: 3, Reward: 1, Completions: 8}},
		event.Event{Type: event.TypeRound, Time: now, Node: own, Round: &event.Round{Round: 1 << 40, Reward: 1}},
		event.Event{Type: event.TypeRound, Time: now, Node: own, Round: &event.Round{Round: 1, Reward: 1e300, Completions: 8}},
		event.Event{Type: event.TypeRound, Time: now, Node: own, Round: &event.Round{Round: 1, Reward: -1}},
		event.Event{Type: event.TypeRunEnded, Time: now, State: event.StateDone}, event.Event{Type: event.TypeGiveUp, Time: now, Node: node},
		event.Event{Type: event.TypeLease, Time: now, Node: own, Lease: &event.Lease{ID: 1, Bytes: math.MaxInt64}},
		event.Event{Type: event.TypeJoin, Time: now, Node: "node_9", Worker: "somebody"},
		event.Event{Type: event.TypeWarning, Time: 1e14, Node: node, Message: strings.Repeat("\x1b[31m<script>", 5000)},
		event.Event{Type: event.TypeEval, Time: now, Node: own, Eval: &event.Eval{Round: 1, Generations: 1 << 30, Questions: make([]event.EvalQuestion, 1000)}},
		map[string]any{"type": []int{1}, "round": "x"}, json.RawMessage(`{"type":"round","round":{"reward":1e999}}`), []any{nil},
	}
	return a.deliver(ctx, dice, lies[dice.IntN(len(lies))])
}

func (a *attacker) beat(ctx context.Context, dice *rand.Rand) error {
	_, err := a.uplink.Beat(ctx, membership.Beat{
		Protocol: membership.Protocol, Run: []string{a.welcome.Run, "another"}[dice.IntN(2)], Process: a.name, Time: float64(dice.Uint32()), Roster: int64(dice.Uint64()),
		Nodes: []membership.Progress{
			{Node: a.seats[0].Node, Round: dice.IntN(1 << 30), State: "<b>"}, {Node: "node_0", Round: -5}, {Node: strings.Repeat("n", 10000)},
		},
	})
	return err
}

func (a *attacker) joins(ctx context.Context, dice *rand.Rand) error {
	join := membership.Join{Protocol: membership.Protocol, Run: a.welcome.Run, Device: strings.Repeat("d", dice.IntN(5000))}
	for range 1 + dice.IntN(membership.MaxSeats*2) {
		join.Nodes = append(join.Nodes, membership.NodeInfo{
			Name: []string{"node_0", "../x", "", strings.Repeat("y", 100), "NODE_1"}[dice.IntN(5)], Model: "\x00", Rounds: int(int32(dice.Uint32())),
		})
	}
	_, err := a.uplink.Join(ctx, join)
	return err
}

func (a *attacker) greetings(ctx context.Context, dice *rand.Rand) error {
	_, err := a.uplink.Hello(ctx, membership.Hello{
		Protocol: dice.IntN(3), Version: strings.Repeat("v", dice.IntN(3000)), Host: "\x1b]0;owned\x07", Process: strconv.Itoa(dice.IntN(5)),
		Time: math.Float64frombits(dice.Uint64() &^ (0x7ff << 52)),
	})
	return err
}

// others publishes where others do: the broker must not let it.
func (a *attacker) others(_ context.Context, dice *rand.Rand) error {
	subject := []string{
		"swarm.e-1.rollouts.3.node_0", "swarm.e-1.shared.3.node_0", "swarm.w.anna.offer", "swarm.enrol", "swarm.e-1.trouble", "_INBOX_w.anna.x", "$SYS.REQ.SERVER.PING",
	}[dice.IntN(7)]
	if err := a.raw.Publish(subject, []byte(`{"version":1}`)); err != nil {
		return err
	}
	return errors.New("sent without an answer")
}

func (a *attacker) api(ctx context.Context, dice *rand.Rand) error {
	verb := []string{
		"STREAM.DELETE.swarm-e-1", "STREAM.PURGE.swarm-e-1", "STREAM.CREATE.mine", "STREAM.MSG.DELETE.swarm-e-1", "DIRECT.GET.swarm-e-1", "INFO",
		"CONSUMER.CREATE.swarm-e-1",
	}[dice.IntN(7)]
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := a.raw.RequestWithContext(ctx, "$JS.API."+verb, []byte(`{"name":"mine","subjects":[">"]}`))
	return err
}

func (a *attacker) listen(_ context.Context, dice *rand.Rand) error {
	subscription, err := a.raw.SubscribeSync([]string{">", "_INBOX_w.anna.>", "swarm.w.>", "$SYS.>", "swarm.e-1.rollouts.>"}[dice.IntN(5)])
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }()
	if m, err := subscription.NextMsg(5 * time.Millisecond); err == nil {
		return fmt.Errorf("HEARD %s", m.Subject)
	}
	return errors.New("nothing heard")
}

func (a *attacker) wants(_ context.Context, dice *rand.Rand) error {
	for range 10 {
		if err := a.raw.Publish(fmt.Sprintf("swarm.e-1.want.%d.node_%d", dice.IntN(1<<30), dice.IntN(2)), make([]byte, dice.IntN(2000))); err != nil {
			return err
		}
	}
	return errors.New("sent without an answer")
}

func (a *attacker) noise(ctx context.Context, dice *rand.Rand) error {
	data := make([]byte, dice.IntN(1<<14))
	for i := range data {
		data[i] = `{}[]",:0e-\u0000null`[dice.IntN(20)]
	}
	m := a.message([]string{"hello", "join", "beat", "deliver", "offer", "read", "x", "offer.offer"}[dice.IntN(8)], data)
	if dice.IntN(2) == 0 {
		m.Header.Set("Swarm-Protocol", strings.Repeat("9", dice.IntN(100)))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return a.ask(ctx, m)
}

func (a *attacker) reads(ctx context.Context, dice *rand.Rand) error {
	m := a.message("read", []byte([]string{`{"multi_last":[">"]}`, `{"seq":1,"batch":1000000}`, `{"last_by_subj":"swarm.e-1.rollouts.2.node_0"}`, `{`}[dice.IntN(4)]))
	m.Header.Set("Swarm-Run", []string{"e-1", "KV_x", ">", strings.Repeat("r", 500)}[dice.IntN(4)])
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return a.ask(ctx, m)
}

// intrude knocks with a wrong secret, or with no NATS at all.
func (a *attacker) intrude(ctx context.Context, dice *rand.Rand) error {
	if dice.IntN(2) == 0 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.invitation.Hosts[0])
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		return errors.Join(errors.New("knocked"), err, conn.Close())
	}
	_, err := natsbus.Enrol(ctx, membership.Invitation{
		Scheme: a.invitation.Scheme, Hosts: a.invitation.Hosts, Fingerprint: a.invitation.Fingerprint, Token: "guess" + strconv.Itoa(dice.IntN(1000)),
	}, "node_0", natsbus.TLSOptions{})
	return err
}

// memorySeries is a process's resident memory over the messages sent.
type memorySeries struct {
	pid        int
	sent, size []float64
}

func (m *memorySeries) sample(sent int) error {
	rss, err := residentBytes(m.pid)
	if err != nil {
		return err
	}
	m.sent, m.size = append(m.sent, float64(sent)), append(m.size, rss)
	return nil
}

// growth is by how many bytes the memory rises over the second half, along a line of least squares.
func (m *memorySeries) growth() float64 {
	half := len(m.sent) / 2
	_, slope := stat.LinearRegression(m.sent[half:], m.size[half:], nil, false)
	return slope * (m.sent[len(m.sent)-1] - m.sent[half])
}

func (m *memorySeries) String() string {
	return fmt.Sprintf("the coordinator's memory: %.0f MB before, %.0f MB half way, %.0f MB at the end, at most %.0f MB; in the second half it grows by %.1f MB",
		m.size[0]/1e6, m.size[len(m.size)/2]/1e6, m.size[len(m.size)-1]/1e6, slices.Max(m.size)/1e6, m.growth()/1e6)
}
