package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// alarmWatch judges the gradients that a run's nodes report. If this host has nodes, it watches only them, because a
// worker can invent its rounds. Else it judges each worker by itself, and raises an alarm when the rule holds for more
// than half of the workers that are present and train. It is not safe for concurrent use.
type alarmWatch struct {
	rules  []alarm.Rule           // of warnings, then with on_alarm stop that of stops
	raised []bool                 // by rule: an alarm was raised, and the growth has not ended since
	groups map[string]*alarmGroup // by worker; "": this host's nodes
}

// alarmGroup holds the nodes of this host or of one worker, which are judged together. A round is judged once, when
// every awaited node has done it.
type alarmGroup struct {
	judges  []alarm.Collapse // by rule
	next    int              // the next round to judge, at first that at which the first node joined
	nodes   map[string]*alarmNode
	waiting map[int][]event.Gradient // by round, of rounds that are not judged yet
}

type alarmNode struct {
	newest    int  // the newest round that it has done, at first the round before it joined
	absent    bool // not awaited: given up, away or gone
	generates bool // its newest round did not train
}

// AlarmRule returns the rule of warnings for a configuration.
func AlarmRule(c configs.Config) alarm.Rule {
	return alarm.Rule{AllActive: c.Beta > 0, Unfiltered: !c.ZeroAdvantageFilter}
}

// newAlarmWatch watches a run whose own nodes have these names. The first rule warns, a second one stops.
func newAlarmWatch(nodes []string, rules ...alarm.Rule) *alarmWatch {
	w := &alarmWatch{rules: rules, raised: make([]bool, len(rules)), groups: map[string]*alarmGroup{}}
	for _, n := range nodes {
		w.group("", 0).nodes[n] = &alarmNode{newest: -1}
	}
	return w
}

// group returns the nodes of a worker. A new worker is judged from a round on.
func (w *alarmWatch) group(worker string, from int) *alarmGroup {
	g := w.groups[worker]
	if g == nil {
		g = &alarmGroup{next: from, nodes: map[string]*alarmNode{}, waiting: map[int][]event.Gradient{}}
		for _, rule := range w.rules {
			g.judges = append(g.judges, alarm.Collapse{Rule: rule})
		}
		w.groups[worker] = g
	}
	return g
}

// own returns this host's nodes, or nil if it has none.
func (w *alarmWatch) own() *alarmGroup { return w.groups[""] }

// judged returns how many rounds of this host's nodes were judged.
func (w *alarmWatch) judged() int {
	if g := w.own(); g != nil {
		return g.next
	}
	return 0
}

// growth is an alarm that was raised.
type growth struct {
	alarm.Growth
	stops bool // by the higher factor
}

// see processes an event and returns the alarms that it raises, usually none.
func (w *alarmWatch) see(e event.Event) []growth {
	if e.Node == "" || e.Worker != "" && w.own() != nil {
		return nil
	}
	if e.Type == event.TypeJoin {
		w.group(e.Worker, e.RoundIndex).join(e.Node, e.RoundIndex)
	}
	g := w.groups[e.Worker]
	if g == nil || g.nodes[e.Node] == nil {
		return nil
	}
	switch {
	case e.Type == event.TypeJoin:
	case e.Type == event.TypeRound && e.Round != nil:
		g.round(g.nodes[e.Node], e.Round)
	case e.Type == event.TypeLeave, e.Type == event.TypeGiveUp:
		g.nodes[e.Node].absent = true
	default:
		return nil
	}
	return w.judge(g, g.done())
}

// join awaits a node, which may be back.
func (g *alarmGroup) join(node string, from int) {
	if g.nodes[node] == nil {
		g.nodes[node] = &alarmNode{newest: from - 1}
	}
	g.nodes[node].absent = false
}

// round processes a node's round. A repeated round changes nothing.
func (g *alarmGroup) round(n *alarmNode, r *event.Round) {
	if r.Round <= n.newest {
		return
	}
	n.newest, n.generates = r.Round, r.GenerateOnly
	if gradient, ok := r.Gradient(); ok && r.Round >= g.next {
		g.waiting[r.Round] = append(g.waiting[r.Round], gradient)
	}
}

// done returns how many rounds every awaited node has done, or 0 if none is awaited.
func (g *alarmGroup) done() int {
	done, waited := 0, false
	for _, n := range g.nodes {
		if !n.absent && (!waited || n.newest+1 < done) {
			done, waited = n.newest+1, true
		}
	}
	return done
}

// trains reports whether a node is present and trains.
func (g *alarmGroup) trains() bool {
	for _, n := range g.nodes {
		if !n.absent && !n.generates {
			return true
		}
	}
	return false
}

// judge judges the rounds of a group before done that are not yet judged.
func (w *alarmWatch) judge(g *alarmGroup, done int) (raised []growth) {
	for ; g.next < done; g.next++ {
		var newest *growth
		for i := range g.judges {
			before := g.judges[i].Stands()
			found, _ := g.judges[i].Add(g.waiting[g.next]...)
			switch stands := g.judges[i].Stands(); {
			case stands && !w.raised[i] && w.agree(i):
				found.Round = g.next
				newest, w.raised[i] = &growth{found, i > 0}, true
			case before && !stands && !w.agree(i):
				w.raised[i] = false
			}
		}
		if newest != nil {
			raised = append(raised, *newest)
		}
		delete(g.waiting, g.next)
	}
	return raised
}

// agree reports whether a rule's alarm stands for more than half of those that take part.
func (w *alarmWatch) agree(rule int) bool {
	stand, all := 0, 0
	for _, g := range w.groups {
		if g.trains() {
			all++
			if g.judges[rule].Stands() {
				stand++
			}
		}
	}
	return 2*stand > all
}

// restore processes the recorded rounds of a resumed run. raised is the newest alarm that they raise, if a killed
// coordinator did not get to record it, else nil.
func (w *alarmWatch) restore(ctx context.Context, reader *store.Reader, run string) (raised *growth, recorded []store.Alarm, err error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	recorded = snapshot.Alarms
	if slices.ContainsFunc(recorded, func(a store.Alarm) bool { return a.ExpectedGrowth == 0 }) {
		// An older program raised it: another rule could raise the same growth once more.
		for i := range w.rules {
			w.rules[i].AllActive = true
		}
		if g := w.own(); g != nil {
			for i := range g.judges {
				g.judges[i].AllActive = true
			}
		}
	}
	series, err := reader.Gradients(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	if own := w.own(); own != nil {
		for _, n := range snapshot.Nodes {
			if known := own.nodes[n.Node]; known != nil {
				known.newest = n.LastRound
			}
		}
		for round, gradients := range series[""] {
			own.waiting[round] = gradients
		}
		if all := w.judge(own, own.done()); all != nil {
			raised = &all[len(all)-1]
		}
		if n := len(recorded); raised != nil && n > 0 && recorded[n-1].Round >= raised.Round {
			raised = nil
		}
		return raised, recorded, nil
	}
	w.restoreWorkers(snapshot.Nodes, series, recorded)
	return nil, recorded, nil
}

// restoreWorkers processes what the database has of workers, which count as absent until they are back. The order in
// which they did their rounds is not known. So an alarm that was recorded counts as raised if the growth of any worker
// has not ended.
func (w *alarmWatch) restoreWorkers(nodes []store.Node, series map[string][][]event.Gradient, recorded []store.Alarm) {
	done := map[string]int{}
	for _, n := range nodes {
		if n.Worker != "" {
			g := w.group(n.Worker, n.From)
			g.next = min(g.next, n.From)
			g.nodes[n.Node] = &alarmNode{newest: n.Position() - 1, absent: true, generates: n.GenerateOnly}
			done[n.Worker] = max(done[n.Worker], n.Position())
		}
	}
	for worker, g := range w.groups {
		for round, gradients := range series[worker] {
			if round >= g.next {
				g.waiting[round] = gradients
			}
		}
		w.judge(g, done[worker])
	}
	for i := range w.rules {
		was := slices.ContainsFunc(recorded, func(a store.Alarm) bool { return i == 0 || a.Action == event.AlarmStop })
		for _, g := range w.groups {
			w.raised[i] = w.raised[i] || was && g.judges[i].Stands()
		}
	}
}

// verdicts holds the alarm's decisions for the nodes. It is safe for concurrent use.
type verdicts struct {
	mu      sync.Mutex
	now     protocol.Verdicts
	changed chan struct{}
}

// get implements launch.Spec.Verdicts.
func (v *verdicts) get() (protocol.Verdicts, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now, v.changed
}

// set publishes the number of judged rounds, and a further round from which the rate is lower (0: none).
func (v *verdicts) set(judged, lowerFrom int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now.Judged = judged
	if lowerFrom > 0 {
		v.now.Lowered = append(slices.Clone(v.now.Lowered), lowerFrom)
	}
	close(v.changed)
	v.changed = make(chan struct{})
}

// checkAlarm refuses lower-rate if the coordinator does not control the learning rate of every node.
func checkAlarm(o Options) error {
	switch {
	case o.Planned.Config.OnAlarm != configs.AlarmLower || o.Worker != nil:
	case o.Admission != nil:
		return fail.Usage(errors.New("--on-alarm lower-rate is for nodes of one host: those of other hosts are not told"), "--on-alarm stop")
	case o.Planned.Trainer.Command != "":
		return fail.Usage(errors.New("--on-alarm lower-rate is for swarm's own nodes: a --node-command decides its learning rate itself"), "--on-alarm stop")
	}
	return nil
}

// alarmError reports that an alarm stopped the run.
type alarmError struct {
	alarm  event.Alarm
	advice string
}

func (e *alarmError) Error() string {
	return fmt.Sprintf("%s in round %d: %s", store.AlarmStop, e.alarm.Round, wording.Alarm(e.alarm))
}

// alarmAdvice returns the remedy for a run whose gradients grow, and how to keep or get the best weights.
func alarmAdvice(p plan.Planned, run string) string {
	c, advice := p.Config, "a new run with a lower --learning-rate"
	if c.MostExternal() > 0 && !c.Corrects() {
		advice = "a new run with --external-correction importance, or with a lower --learning-rate"
	}
	switch {
	case p.Trainer.Command != "" || c.EvalQuestions == 0: // no weights are chosen
	case c.ValidationQuestions > 0:
		advice += ", or swarm model save " + run + " DIR --best for its best weights"
	default:
		advice += ", and with --validation-questions 36, which keeps the best weights"
	}
	return advice
}

// watchAlarm begins to judge the run's gradient norms, except on a worker, whose coordinator judges them. It returns an
// error if the learning rate depends on norms that can't be read.
func (r *recorder) watchAlarm(ctx context.Context) error {
	if r.c.o.Worker != nil {
		return nil
	}
	lowers := r.c.p.Config.OnAlarm == configs.AlarmLower
	rules := []alarm.Rule{AlarmRule(r.c.p.Config)}
	if r.c.p.Config.OnAlarm == configs.AlarmStop {
		rules = append(rules, rules[0])
		rules[1].Factor = alarm.StopFactor
	}
	watch := newAlarmWatch(r.c.nodeIDs, rules...)
	raised, recorded, err := watch.restore(ctx, r.c.reader, r.c.run)
	if err != nil {
		if lowers {
			return fmt.Errorf("the gradient norms so far: %w", err)
		}
		r.logger.Error("gradient norms are not watched", "error", err)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarm = watch
	if lowers {
		r.verdicts = &verdicts{changed: make(chan struct{})}
		for _, a := range recorded {
			r.verdicts.set(0, a.LowerFrom)
		}
	}
	if raised != nil {
		r.raise(*raised)
	}
	if lowers {
		r.verdicts.set(watch.judged(), 0)
	}
	return nil
}

// watched passes an event to the alarm. r.mu is held.
func (r *recorder) watched(e event.Event) {
	if r.alarm == nil {
		return
	}
	before := r.alarm.judged()
	for _, g := range r.alarm.see(e) {
		r.raise(g)
	}
	if judged := r.alarm.judged(); r.verdicts != nil && judged > before {
		r.verdicts.set(judged, 0)
	}
}

// raise records an alarm and takes the action that the run's on_alarm sets. r.mu is held.
func (r *recorder) raise(g growth) {
	config := r.c.p.Config
	a := event.Alarm{Round: g.Round, Recent: g.Recent, Reference: g.Reference, ExpectedGrowth: g.Expected, Action: event.AlarmWarn}
	switch {
	case g.stops && g.Round < config.Rounds-1:
		a.Action = event.AlarmStop
	case config.OnAlarm == configs.AlarmLower:
		a.Action, a.LowerFrom = event.AlarmLower, g.Round+configs.AlarmLead
	}
	e := event.Event{Type: event.TypeAlarm, Run: r.c.run, Time: r.c.clock.now(), Alarm: &a, Message: alarmAdvice(r.c.p, r.c.run)}
	r.logger.Warn(wording.Event(e))
	r.take(e)
	switch a.Action {
	case event.AlarmStop:
		r.fail(&alarmError{a, e.Message})
	case event.AlarmLower:
		// Write the alarm to disk before any node acts on it. A run that resumes after a crash must decide the same.
		if err := r.c.store.Flush(context.WithoutCancel(r.ctx)); err != nil {
			r.fail(fmt.Errorf("record the alarm: %w", err))
			return
		}
		r.verdicts.set(g.Round, a.LowerFrom)
	}
}
