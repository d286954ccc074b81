package store

import (
	"errors"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// timeline reports whether events of a type become rows of the table events. Continuous measurements do not.
func timeline(t event.Type) bool {
	switch t {
	case event.TypeState, event.TypeLoaded, event.TypeRound, event.TypeMemory, event.TypeLease, event.TypeRelease,
		event.TypeCheckpoint, event.TypeEval, event.TypeDevice, event.TypeSummary:
		return false
	}
	return true
}

// ownedByNode reports whether a type requires a node.
func ownedByNode(t event.Type) bool {
	switch t {
	case event.TypeState, event.TypeLoaded, event.TypeRound, event.TypeMemory, event.TypeCheckpoint, event.TypeEval,
		event.TypeSpawn, event.TypeExit, event.TypeRestart, event.TypeGiveUp, event.TypeMemoryStep,
		event.TypeJoin, event.TypeLeave:
		return true
	}
	return false
}

// check rejects an event that cannot be stored.
func check(e event.Event) error {
	switch {
	case e.Type == "":
		return errors.New("it has no type")
	case e.Time <= 0 || !units.Finite(e.Time):
		return errors.New("its time is not valid")
	case ownedByNode(e.Type) && e.Node == "":
		return errors.New("it names no node")
	case e.Type == event.TypeWorker && e.Worker == "":
		return errors.New("it names no worker")
	case (e.Type == event.TypeState || e.Type == event.TypeRunEnded || e.Type == event.TypeWorker) && e.State == "",
		e.Type == event.TypeLoaded && e.Loaded == nil,
		e.Type == event.TypeRound && e.Round == nil,
		e.Type == event.TypeMemory && e.Memory == nil,
		e.Type == event.TypeCheckpoint && e.Checkpoint == nil,
		e.Type == event.TypeEval && e.Eval == nil,
		e.Type == event.TypeMemoryStep && e.MemoryStep == nil,
		e.Type == event.TypeAlarm && e.Alarm == nil,
		e.Type == event.TypeDevice && (e.Device == nil || e.Device.UUID == ""):
		return errors.New("it has no content")
	case e.Type == event.TypeRound && e.Round.Round < 0, e.Type == event.TypeEval && e.Eval.Round < 0,
		e.Type == event.TypeJoin && e.RoundIndex < 0:
		return errors.New("its round is negative")
	}
	return nil
}

// stateRank orders states with equal times: the state that is later in a node's life cycle wins.
func stateRank(s event.State) int {
	for i, known := range lifeOrder {
		if known == s {
			return i
		}
	}
	return len(lifeOrder)
}

var lifeOrder = [...]event.State{
	event.StateQueued, event.StateStarting, event.StateLoading, event.StateReplaying, event.StateWaiting, event.StateGenerating, event.StateScoring,
	event.StateSharing, event.StateBarrier, event.StateUpdating, event.StateEvaluating, event.StateCheckpoint, event.StateDone, event.StateStopped,
	event.StateFailed, event.StateGivenUp,
}
