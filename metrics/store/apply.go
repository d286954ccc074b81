package store

import (
	"github.com/sapo-swarm/swarm/metrics/event"
)

// apply writes an event. A key or a time guards every statement, so that a repeated event changes nothing.
func (tx *transaction) apply(e event.Event) error {
	if e.Replayed {
		return tx.replayed(e)
	}
	if e.Node != "" {
		if err := tx.row(e); err != nil {
			return err
		}
		key := [2]string{e.Run, e.Node}
		tx.heard[key] = max(tx.heard[key], e.Time)
	}
	switch e.Type {
	case event.TypeState:
		return tx.state(e, e.State)
	case event.TypeLoaded:
		return tx.loaded(e)
	case event.TypeRound:
		return tx.round(e)
	case event.TypeMemory:
		return tx.memory(e)
	case event.TypeDevice:
		return tx.device(e)
	case event.TypeCheckpoint:
		return tx.checkpoint(e)
	case event.TypeEval:
		return tx.eval(e)
	}
	if !timeline(e.Type) {
		return nil
	}
	return tx.happened(e)
}

// touch updates when each node was last heard of.
func (tx *transaction) touch() error {
	for key, at := range tx.heard {
		if _, err := tx.exec(touchNodeSQL, key[0], key[1], at); err != nil {
			return err
		}
	}
	return nil
}

// row creates the node's row if it is missing.
func (tx *transaction) row(e event.Event) error {
	key := [2]string{e.Run, e.Node}
	if tx.nodes[key] {
		return nil
	}
	_, err := tx.exec(insertNodeSQL, e.Run, e.Node, e.Worker)
	tx.nodes[key] = err == nil
	return err
}

func (tx *transaction) state(e event.Event, s event.State) error {
	if e.Type == event.TypeState {
		_, err := tx.exec(setWorkingSQL, e.Run, e.Node, e.Time, string(s), stateRank(s), e.RoundIndex)
		return err
	}
	_, err := tx.exec(setStateSQL, e.Run, e.Node, e.Time, string(s), stateRank(s))
	return err
}

func (tx *transaction) loaded(e event.Event) error {
	l := e.Loaded
	enginePID := l.EnginePID
	if e.Worker != "" {
		enginePID = 0
	}
	_, err := tx.exec(setLoadedSQL, e.Run, e.Node, e.Time, l.Model, l.Parameters, l.ContextLength, l.Torch, l.Device,
		finite(l.Seconds), finite(l.SelfTestMaxAbsDiff), enginePID, l.StartRound, l.ReplayedRounds,
		max(0, zeroed(l.ReplaySeconds)))
	return err
}

func (tx *transaction) memory(e event.Event) error {
	m := e.Memory
	peakRSS, peakPSS, peakDevice := max(m.PeakRSSBytes, m.RSSBytes), max(m.PeakPSSBytes, m.PSSBytes), max(m.DevicePeakBytes, m.DeviceBytes)
	newest, err := tx.exec(setMemorySQL, e.Run, e.Node, e.Time, m.RSSBytes, peakRSS, m.DeviceBytes, peakDevice, m.PSSBytes, peakPSS)
	if err == nil && !newest {
		_, err = tx.exec(raisePeaksSQL, e.Run, e.Node, peakRSS, peakDevice, peakPSS)
	}
	if err != nil {
		return err
	}
	if m.ResidentBytes > 0 || m.BudgetBytes > 0 {
		_, err := tx.exec(setPhasesSQL, e.Run, e.Node, e.Time, m.ResidentBytes, m.GenerateBytes, m.UpdateBytes, m.MicroBatch, m.BudgetBytes)
		if err != nil {
			return err
		}
	}
	slot := int64(e.Time) / tx.slot * tx.slot
	_, err = tx.exec(insertMemorySQL, e.Run, e.Node, slot, m.RSSBytes, peakRSS, m.DeviceBytes, peakDevice, m.PSSBytes, peakPSS)
	return err
}

// happened writes a row of the timeline and updates the node or the run.
func (tx *transaction) happened(e event.Event) error {
	detail, err := detail(e)
	if err != nil {
		return err
	}
	cause, message := e.Cause, e.Message
	if e.MemoryStep != nil {
		cause, message = e.MemoryStep.Cause, e.MemoryStep.Phase+": "+e.MemoryStep.Action
	}
	var exitCode any
	if e.ExitCode != nil {
		exitCode = *e.ExitCode
	}
	isNew, err := tx.exec(insertEventSQL, e.Run, e.Node, e.Worker, string(e.Type), e.Time, string(e.State), cause, message, e.PID,
		exitCode, finite(e.Seconds), detail)
	if err != nil {
		return err
	}
	switch e.Type {
	case event.TypeSpawn:
		if e.Worker == "" { // another host's pids have no meaning here
			if _, err := tx.exec(setPIDSQL, e.Run, e.Node, e.Time, e.PID); err != nil {
				return err
			}
		}
		return tx.state(e, event.StateStarting)
	case event.TypeExit:
		return tx.exited(e)
	case event.TypeRestart:
		if !isNew {
			return nil
		}
		_, err := tx.exec(countRestartSQL, e.Run, e.Node)
		return err
	case event.TypeFailure:
		if e.Node == "" {
			return nil
		}
		return tx.died(e, event.StateFailed)
	case event.TypeGiveUp:
		return tx.died(e, event.StateGivenUp)
	case event.TypeRunEnded:
		return tx.ended(e)
	case event.TypeJoin:
		return tx.joined(e)
	case event.TypeLeave:
		return tx.left(e)
	case event.TypeWorker:
		return tx.worker(e)
	}
	return nil
}

// exited records the end of the node's process. After exit code 0 the last state that the node reported stays: done or
// stopped.
func (tx *transaction) exited(e event.Event) error {
	if _, err := tx.exec(clearPIDSQL, e.Run, e.Node, e.Time); err != nil {
		return err
	}
	switch {
	case e.Cause == event.CauseStopped:
		// A node that has finished all its rounds stays done.
		if e.ExitCode != nil && *e.ExitCode == 0 {
			return nil
		}
		return tx.state(e, event.StateStopped)
	case e.ExitCode != nil && *e.ExitCode == 0:
		return nil
	}
	return tx.died(e, event.StateFailed)
}

func (tx *transaction) died(e event.Event, s event.State) error {
	if _, err := tx.exec(setCauseSQL, e.Run, e.Node, e.Time, e.Cause, e.Message); err != nil {
		return err
	}
	return tx.state(e, s)
}
