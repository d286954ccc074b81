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

// alarmWatch judges the gradients that a run's nodes report. It judges each round once, when every awaited node
// has done it. It is not safe for concurrent use.
type alarmWatch struct {
	alarm  alarm.Collapse
	stop   *alarm.Collapse // of on_alarm stop: judges by a higher factor; nil: only warnings
	newest map[string]int  // by node: the newest round that it has done, at first the round before it joined
	absent map[string]bool // nodes that are not awaited: given up, away or gone

	waiting map[int][]event.Gradient // of rounds that are not judged yet
}

// AlarmRule returns the rule of warnings for a configuration.
func AlarmRule(c configs.Config) alarm.Rule {
	return alarm.Rule{AllActive: c.Beta > 0, Unfiltered: !c.ZeroAdvantageFilter}
}

// newAlarmWatch watches a run whose own nodes have these names. Workers' nodes join later.
func newAlarmWatch(nodes []string, rule alarm.Rule) *alarmWatch {
	w := &alarmWatch{alarm: alarm.Collapse{Rule: rule}, newest: map[string]int{}, absent: map[string]bool{}, waiting: map[int][]event.Gradient{}}
	for _, n := range nodes {
		w.newest[n] = -1
	}
	return w
}

// growth is an alarm that was raised.
type growth struct {
	alarm.Growth
	stops bool // by the higher factor
}

// judgeRound judges the next round. It returns nil, or the alarm that the round raises.
func (w *alarmWatch) judgeRound(gradients ...event.Gradient) (raised *growth) {
	if g, now := w.alarm.Add(gradients...); now {
		raised = &growth{Growth: g}
	}
	if w.stop != nil {
		if g, now := w.stop.Add(gradients...); now {
			raised = &growth{g, true}
		}
	}
	return raised
}

// see processes an event and returns the alarms that it raises, usually none.
func (w *alarmWatch) see(e event.Event) []growth {
	switch {
	case e.Type == event.TypeRound && e.Round != nil:
		w.round(e.Node, e.Round)
	case e.Type == event.TypeJoin:
		if _, known := w.newest[e.Node]; !known {
			w.newest[e.Node] = e.RoundIndex - 1
		}
		delete(w.absent, e.Node)
	case e.Type == event.TypeLeave, e.Type == event.TypeGiveUp:
		w.absent[e.Node] = true
	default:
		return nil
	}
	return w.judge()
}

// round processes a node's round. A repeated round changes nothing.
func (w *alarmWatch) round(node string, r *event.Round) {
	if newest, known := w.newest[node]; known && r.Round <= newest {
		return
	}
	w.newest[node] = r.Round
	if gradient, ok := r.Gradient(); ok {
		w.add(r.Round, gradient)
	}
}

// add records a gradient, unless its round has been judged.
func (w *alarmWatch) add(round int, gradient event.Gradient) {
	if round >= w.alarm.Rounds() {
		w.waiting[round] = append(w.waiting[round], gradient)
	}
}

// done returns how many rounds every awaited node has done, or 0 if none is awaited.
func (w *alarmWatch) done() int {
	done, waited := 0, false
	for node, newest := range w.newest {
		if !w.absent[node] && (!waited || newest+1 < done) {
			done, waited = newest+1, true
		}
	}
	return done
}

// judge judges the rounds that are done and not yet judged.
func (w *alarmWatch) judge() []growth { return w.judgeTo(w.done()) }

// judgeTo judges the rounds before done that are not yet judged.
func (w *alarmWatch) judgeTo(done int) (raised []growth) {
	for w.alarm.Rounds() < done {
		round := w.alarm.Rounds()
		if g := w.judgeRound(w.waiting[round]...); g != nil {
			raised = append(raised, *g)
		}
		delete(w.waiting, round)
	}
	return raised
}

// restore processes the recorded rounds of a resumed run. raised is the newest alarm that they raise, if a killed
// coordinator did not get to record it, else nil.
func (w *alarmWatch) restore(ctx context.Context, reader *store.Reader, run string) (raised *growth, recorded []store.Alarm, err error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	recorded = snapshot.Alarms
	for _, a := range recorded {
		if a.ExpectedGrowth == 0 { // an older program raised it: another rule could raise the same growth once more
			w.alarm.AllActive = true
		}
	}
	if w.stop != nil {
		w.stop.AllActive = w.alarm.AllActive
	}
	for _, n := range snapshot.Nodes {
		if _, own := w.newest[n.Node]; own {
			w.newest[n.Node] = n.LastRound
		}
	}
	done := w.done()
	if len(w.newest) == 0 {
		done = store.RoundsDone(snapshot.Nodes)
	}
	series, err := reader.Gradients(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	for round, gradients := range series {
		w.waiting[round] = gradients
	}
	if all := w.judgeTo(done); all != nil {
		raised = &all[len(all)-1]
	}
	if n := len(recorded); raised != nil && n > 0 && recorded[n-1].Round >= raised.Round {
		raised = nil
	}
	return raised, recorded, nil
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
	rule := AlarmRule(r.c.p.Config)
	watch := newAlarmWatch(r.c.nodeIDs, rule)
	if r.c.p.Config.OnAlarm == configs.AlarmStop {
		rule.Factor = alarm.StopFactor
		watch.stop = &alarm.Collapse{Rule: rule}
	}
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
		r.verdicts.set(watch.alarm.Rounds(), 0)
	}
	return nil
}

// watched passes an event to the alarm. r.mu is held.
func (r *recorder) watched(e event.Event) {
	if r.alarm == nil {
		return
	}
	before := r.alarm.alarm.Rounds()
	for _, g := range r.alarm.see(e) {
		r.raise(g)
	}
	if judged := r.alarm.alarm.Rounds(); r.verdicts != nil && judged > before {
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
