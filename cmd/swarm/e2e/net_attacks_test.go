package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// attack sends one message.
type attack func(ctx context.Context, dice *rand.Rand) error

func (a *attacker) kinds() map[string]attack {
	kinds := map[string]attack{
		"flood of events": a.flood, "events that lie": a.lies, "beats that lie": a.beat, "joins": a.joins, "greetings": a.greetings,
		"others' subjects": a.others, "JetStream's API": a.api, "listening": a.listen, "wants": a.wants, "noise as requests": a.noise,
		"wrong secrets": a.intrude, "reads": a.reads, "newcomers": a.newcomers, "sybils": a.sybils, "draws": a.draws,
	}
	for name, change := range tampers() {
		kinds["offer: "+name] = func(ctx context.Context, dice *rand.Rand) error {
			assignment := a.assignments[dice.IntN(len(a.assignments))]
			return a.offer(ctx, dice, assignment.Node, assignment.From+dice.IntN(40), change)
		}
	}
	return kinds
}

// tamper changes a plausible batch before it is offered; nil: the encoded batch is changed.
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
		"all wrong": func(*rand.Rand, *exchange.Batch, *membership.Offer) {}, // may be accepted, but teaches nothing
	}
}

// poison stays within the rules: it sends heartbeats and offers bad batches on time and within its rates. The
// coordinator can't detect them, so the nodes must.
func (a *attacker) poison(ctx context.Context) {
	all := tampers()
	kinds := []string{"wrong answer key", "lying metadata", "other questions", "all wrong"}
	offered := 0
	for ctx.Err() == nil {
		var nodes []membership.Progress
		for _, s := range a.assignments {
			nodes = append(nodes, membership.Progress{Node: s.Node, Round: max(s.From, offered), State: event.StateGenerating})
		}
		roster, err := a.uplink.Beat(ctx, membership.Beat{
			Protocol: membership.Protocol, Run: a.welcome.Run, Process: a.name, Time: event.Now(), Nodes: nodes,
		})
		if err != nil {
			a.note("beat", fateOf(err))
		}
		for round := max(offered+1, roster.Round, a.assignments[0].From); err == nil && round <= roster.Round+1; round++ {
			for i, assignment := range a.assignments {
				kind := kinds[(round+i)%len(kinds)]
				a.note("offer: "+kind, fateOf(a.offer(ctx, a.dice, assignment.Node, round, all[kind])))
			}
			offered = round
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// plausible returns a batch like that of an honest node of the attacker, except that all answers are wrong: it has no
// advantage.
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

// offer offers a plausible batch with a change.
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

// deliver sends events from an outbox with a random name.
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
		events[i] = event.Event{Type: event.TypeState, Time: event.Now(), Node: a.assignments[0].Node, State: event.StateGenerating, RoundIndex: dice.IntN(1000)}
	}
	return a.deliver(ctx, dice, events...)
}

func (a *attacker) lies(ctx context.Context, dice *rand.Rand) error {
	node, own := []string{"node_0", "node_1", "", a.assignments[0].Node, "../../x"}[dice.IntN(5)], a.assignments[1].Node
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
			{Node: a.assignments[0].Node, Round: dice.IntN(1 << 30), State: "<b>"}, {Node: "node_0", Round: -5}, {Node: strings.Repeat("n", 10000)},
		},
	})
	return err
}

func (a *attacker) joins(ctx context.Context, dice *rand.Rand) error {
	join := membership.Join{Protocol: membership.Protocol, Run: a.welcome.Run, Device: strings.Repeat("d", dice.IntN(5000))}
	for range 1 + dice.IntN(membership.MaxNodes*2) {
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

// others publishes on other clients' subjects, which the broker must refuse.
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

// intrude connects with a wrong secret, or without the NATS protocol.
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

// elsewhere dials from another address of this machine, so that it doesn't use up the honest workers' allowance.
type elsewhere struct{}

func (elsewhere) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}, Timeout: patience}).Dial(network, address)
}

// newcomers connects as a client without credentials, and stays as long as it may.
func (a *attacker) newcomers(_ context.Context, dice *rand.Rand) error {
	conn, err := nats.Connect("tls://"+a.invitation.Hosts[0], nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.TLSHandshakeFirst(),
		nats.UserInfo("enrol", ""), nats.Name(fmt.Sprintf("%032x", dice.Uint64())), nats.NoReconnect(), nats.SetCustomDialer(elsewhere{}), nats.Timeout(patience))
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, conn)
	return nil
}

// sybils enrolls one more worker with the same invitation.
func (a *attacker) sybils(ctx context.Context, dice *rand.Rand) error {
	_, err := natsbus.Enrol(ctx, a.invitation, fmt.Sprintf("sybil%d", dice.IntN(1<<20)), natsbus.TLSOptions{})
	return err
}

// draws requests everything that the others have shared.
func (a *attacker) draws(ctx context.Context, dice *rand.Rand) error {
	m := a.message("read", fmt.Appendf(nil, `{"next_by_subj":"swarm.e-1.rollouts.*.node_%d","seq":1,"batch":256}`, dice.IntN(2)))
	m.Header.Set("Swarm-Run", "e-1")
	return a.ask(ctx, m)
}
