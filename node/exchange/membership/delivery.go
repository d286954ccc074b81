package membership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// Bounds of an event, checked before or after decoding.
const (
	maxCommas    = 1 << 16 // elements for which decoding may allocate memory
	maxElements  = 1 << 14 // per list
	maxMap       = 64
	maxMagnitude = 1e15 // of a number
	maxSamples   = 1 << 10
)

// tombstone replaces an event that an outbox has lost, so that the number stays in use.
var tombstone = json.RawMessage("{}")

// nothing replaces a rejected event, so that the others keep their numbers. It is the end of a lease without a node,
// which changes nothing.
func nothing(run, worker string, now float64) event.Event {
	return event.Event{Type: event.TypeRelease, Time: now, Run: run, Worker: worker}
}

// examiner checks a worker's events. It is pure.
type examiner struct {
	run, worker string
	cfg         configs.Config
	rounds      int
	owns        func(node string) bool
	correct     func(time float64) float64
}

// accept decodes and checks one event, and adds the run, the worker and the corrected time.
func (x examiner) accept(raw json.RawMessage) (event.Event, error) {
	var e event.Event
	switch {
	case len(raw) > MaxEventBytes:
		return e, fmt.Errorf("it has %d bytes, more than %d", len(raw), MaxEventBytes)
	case bytes.Count(raw, []byte{','}) > maxCommas:
		return e, errors.New("it has too many elements")
	case !utf8.Valid(raw):
		return e, errors.New("it is not UTF-8")
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("it can't be decoded: %.100s", Tidy(err.Error(), 100))
	}
	if err := x.allowed(e); err != nil {
		return e, err
	}
	if err := bound(reflect.ValueOf(&e).Elem()); err != nil {
		return e, err
	}
	if err := x.sound(e); err != nil {
		return e, err
	}
	e.Run, e.Worker, e.Time = x.run, x.worker, x.correct(e.Time)
	local(&e)
	return e, nil
}

// allowed returns an error if a worker must not send such an event.
func (x examiner) allowed(e event.Event) error {
	switch e.Type {
	case event.TypeState, event.TypeLoaded, event.TypeRound, event.TypeMemory, event.TypeCheckpoint, event.TypeEval, event.TypeMemoryStep,
		event.TypeFailure, event.TypeSpawn, event.TypeExit, event.TypeRestart, event.TypeGiveUp:
		if e.Node == "" {
			return errors.New("it names no node")
		}
	case event.TypeWarning, event.TypeDevice:
	default:
		return fmt.Errorf("a worker may not send events of type %.20q", Tidy(string(e.Type), 20))
	}
	if e.Node != "" && !x.owns(e.Node) {
		return fmt.Errorf("node %.40q belongs to another worker", Tidy(e.Node, 40))
	}
	if !(e.Time > 0) || e.Time > maxMagnitude {
		return errors.New("its time is not valid")
	}
	return nil
}

// local clears the fields that are meaningful only on the worker's host.
func local(e *event.Event) {
	e.PID = 0
	if e.Loaded != nil {
		e.Loaded.EnginePID = 0
	}
	if e.Checkpoint != nil {
		e.Checkpoint.Path = ""
	}
}

// sound returns an error if the event's numbers are impossible in this experiment.
func (x examiner) sound(e event.Event) error {
	carries := map[event.Type]bool{
		event.TypeLoaded: e.Loaded != nil, event.TypeRound: e.Round != nil, event.TypeMemory: e.Memory != nil, event.TypeCheckpoint: e.Checkpoint != nil,
		event.TypeEval: e.Eval != nil, event.TypeMemoryStep: e.MemoryStep != nil, event.TypeDevice: e.Device != nil && e.Device.UUID != "",
		event.TypeState: known(e.State),
	}
	if there, must := carries[e.Type]; must && !there {
		return errors.New("it has no content")
	}
	if e.RoundIndex < 0 || e.RoundIndex > x.rounds || e.Seconds < 0 {
		return fmt.Errorf("its round %d or duration %v is impossible", e.RoundIndex, e.Seconds)
	}
	switch e.Type {
	case event.TypeRound:
		return x.round(e.Round)
	case event.TypeEval:
		return x.eval(e.Eval)
	case event.TypeMemory:
		return natural(*e.Memory)
	case event.TypeMemoryStep:
		return natural(*e.MemoryStep)
	case event.TypeCheckpoint:
		return natural(*e.Checkpoint)
	case event.TypeLoaded:
		return natural(*e.Loaded)
	}
	return nil
}

// known reports whether a node may report a state. States that only the coordinator assigns are excluded.
func known(s event.State) bool {
	switch s {
	case event.StateQueued, event.StateStarting, event.StateLoading, event.StateReplaying, event.StateWaiting, event.StateGenerating,
		event.StateScoring, event.StateSharing, event.StateBarrier, event.StateUpdating, event.StateEvaluating, event.StateCheckpoint,
		event.StateDone, event.StateStopped, event.StateFailed, event.StateGivenUp:
		return true
	}
	return false
}

// round checks a round against the experiment, because its rewards are summed and compared.
func (x examiner) round(r *event.Round) error {
	if r.Round < 0 || r.Round >= x.rounds {
		return fmt.Errorf("round %d does not exist: rounds are 0 to %d", r.Round, x.rounds-1)
	}
	if err := x.metrics(r); err != nil {
		return fmt.Errorf("round %d: %w", r.Round, err)
	}
	total := 0
	for _, t := range r.Tasks {
		total += max(t.Completions, 0)
		if t.Completions < 1 || total > r.Completions || t.RewardSum < 0 || t.RewardSum > float64(t.Completions)+1e-6 {
			return fmt.Errorf("round %d: task %.40q has a reward of %v for %d completions", r.Round, t.Task, t.RewardSum, t.Completions)
		}
	}
	if most := x.cfg.MaxPeers; most > 0 && len(r.Peers) > most { // each peer is a row of the database
		return fmt.Errorf("round %d: %d peers, but max_peers is %d", r.Round, len(r.Peers), most)
	}
	for _, p := range r.Peers {
		if err := natural(p); err != nil {
			return fmt.Errorf("round %d: peer %.40q: %w", r.Round, p.Node, err)
		}
	}
	return nil
}

// metrics checks a round's metrics against their bounds.
func (x examiner) metrics(r *event.Round) error {
	own, external := float64(x.cfg.MostOwn()), float64(x.cfg.MostExternal())
	most := map[event.Bound]float64{
		event.BoundCompletions: own * float64(x.cfg.NumGenerations), event.BoundOwnGroups: own, event.BoundExternalGroups: external,
	}
	for _, m := range event.Metrics() {
		v := m.Number(r)
		limit, limited := most[m.Bound]
		switch {
		case limited && v > limit:
			return errors.New("more completions or groups than the experiment has")
		case (limited || m.Bound == event.BoundCount) && v < 0:
			return fmt.Errorf("a count of %v", v)
		case m.Bound == event.BoundRatio && (v < 0 || v > 1):
			return fmt.Errorf("%v is outside 0 to 1", v)
		case m.Bound == event.BoundLength && v < 0:
			return fmt.Errorf("a duration, length or norm of %v", v)
		case m.Bound == event.BoundDifference && v < 0:
			return fmt.Errorf("a difference of log-probabilities of %v", v)
		}
	}
	return nil
}

func (x examiner) eval(e *event.Eval) error {
	if e.Round < 0 || e.Round > x.rounds || e.Generations < 1 || e.Generations > maxSamples || e.FormatRate < 0 || e.FormatRate > 1 {
		return fmt.Errorf("an evaluation at round %d with %d answers per question is impossible", e.Round, e.Generations)
	}
	if len(e.Questions) > x.cfg.EvalQuestions {
		return fmt.Errorf("an evaluation with %d questions instead of at most %d", len(e.Questions), x.cfg.EvalQuestions)
	}
	for _, q := range e.Questions {
		if q.Correct < 0 || q.Correct > e.Generations || q.RewardSum < 0 || q.RewardSum > float64(e.Generations)+1e-6 {
			return fmt.Errorf("an evaluation with %d of %d answers correct and a reward of %v", q.Correct, e.Generations, q.RewardSum)
		}
	}
	return nil
}

// natural returns an error if a flat struct has a negative number.
func natural(v any) error {
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		field := value.Field(i)
		if field.CanInt() && field.Int() < 0 || field.CanFloat() && field.Float() < 0 {
			return fmt.Errorf("%s of %v", value.Type().Field(i).Name, field.Interface())
		}
	}
	return nil
}

// bound checks every number, text and list of an event against the bounds, and makes texts printable.
func bound(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return bound(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := bound(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Len() > maxElements {
			return fmt.Errorf("a list of %d, more than %d", v.Len(), maxElements)
		}
		for i := range v.Len() {
			if err := bound(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map: // of texts
		if v.Len() > maxMap {
			return fmt.Errorf("a table of %d, more than %d", v.Len(), maxMap)
		}
		for _, key := range v.MapKeys() {
			if key.Len() > maxMap || v.MapIndex(key).Len() > maxMap {
				return errors.New("a table with too long texts")
			}
		}
	case reflect.String:
		v.SetString(Tidy(v.String(), MaxTextBytes))
	case reflect.Int, reflect.Int64:
		if n := v.Int(); n > 1<<53 || n < -1<<53 {
			return fmt.Errorf("a number of %d", n)
		}
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.Abs(f) > maxMagnitude {
			return fmt.Errorf("a number of %v", f)
		}
	}
	return nil
}
