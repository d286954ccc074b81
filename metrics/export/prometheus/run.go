package prometheus

import (
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	maxNodes = 1024 // maximum exported nodes per run
	maxGPUs  = 64   // maximum exported GPUs per run

	maxWorkers = 1024 // maximum exported workers per run

	// deviceFresh is the maximum age of a current GPU sample, in seconds: several time slots of the database.
	deviceFresh = 60
)

// current is the exported data of one run.
type current struct {
	run     store.Run
	status  stats.Status
	steps   []store.MemoryStepTotal
	devices []store.DeviceSample // fresh ones
	workers []workers.Row
}

func (p *page) addRun(c current) {
	s := series{p, c.run.Run, c.run.Experiment}
	st := c.status
	s.add(runInfo, 1, stats.ConfigName(c.run), c.run.Preset, st.Model, st.Device,
		strconv.FormatInt(c.run.Seed, 10))
	s.add(runState, 1, oneOf(st.State, runStates))
	s.add(runRounds, float64(st.Round))
	s.add(runRoundsPlanned, float64(st.Rounds))
	s.add(runNodesAlive, float64(st.NodesAlive))
	s.add(runNodesPlanned, float64(st.NodesPlanned))
	s.known(runReward, st.Reward)
	s.add(cumulativeReward, st.CumulativeReward)
	s.add(runStart, st.Started)
	s.add(runElapsed, st.ElapsedSeconds)
	s.add(runActive, st.ActiveSeconds)
	s.known(runRoundTime, st.SecondsPerRound)
	s.known(runETA, st.ETASeconds)
	s.known(runCost, st.Cost, st.PriceCurrency)
	s.known(runProjectedCost, st.ProjectedCost, st.PriceCurrency)
	s.add(runAttempts, float64(st.Attempts))
	s.outOfMemory(c.steps)
	for _, n := range st.Nodes[:min(maxNodes, len(st.Nodes))] {
		s.node(n)
	}
	for _, d := range c.devices[:min(maxGPUs, len(c.devices))] {
		s.gpu(d)
	}
	for _, w := range c.workers[:min(maxWorkers, len(c.workers))] {
		s.worker(w)
	}
}

func (s series) worker(w workers.Row) {
	up := 0.0
	if w.State == string(event.WorkerConnected) {
		up = 1
	}
	s.add(workerUp, up, w.Worker)
	s.add(workerNodes, float64(w.Nodes), w.Worker)
	s.add(workerOffered, float64(w.Offered), w.Worker)
	s.add(workerRefused, float64(w.Refused), w.Worker)
	s.add(workerReceived, float64(w.Bytes), w.Worker)
	if w.LastSeen > 0 {
		s.add(workerLastSeen, w.LastSeen, w.Worker)
	}
	for _, x := range []struct {
		family family
		value  stats.Value
	}{{workerUseful, w.UsefulRatio}, {workerUsed, w.UsedRatio}} {
		if v := float64(x.value); v >= 0 { // otherwise no node received its rollouts
			s.add(x.family, v, w.Worker)
		}
	}
}

func (s series) outOfMemory(steps []store.MemoryStepTotal) {
	counts := map[[2]string]int{}
	for _, x := range steps {
		counts[[2]string{oneOf(x.Cause, memoryCauses), oneOf(x.Action, memoryActions)}] += x.Count
	}
	for key, n := range counts {
		s.add(outOfMemory, float64(n), key[0], key[1])
	}
}

func (s series) node(n stats.NodeStatus) {
	s.add(rounds, float64(n.Round), n.ID)
	s.add(nodeState, 1, n.ID, oneOf(n.State, nodeStates))
	s.known(nodeReward, n.Reward, n.ID)
	s.known(nodeRecentReward, n.RecentReward, n.ID)
	s.add(nodeCumulativeReward, n.CumulativeReward, n.ID)
	s.add(nodeRestarts, float64(n.Restarts), n.ID)
	s.add(nodeHostMemory, float64(n.RSSBytes), n.ID, "resident")
	s.add(nodeHostMemory, float64(n.PeakRSSBytes), n.ID, "peak")
	if n.HostKind == store.HostPSS {
		s.add(nodeHostMemory, float64(n.PSSBytes), n.ID, "proportional")
		s.add(nodeHostMemory, float64(n.PeakPSSBytes), n.ID, "proportional_peak")
	}
	if n.DevicePeakBytes == 0 {
		return // on a CPU, or the model is not loaded yet
	}
	s.add(nodeGPUMemory, float64(n.DeviceBytes), n.ID, "allocated")
	s.add(nodeGPUMemory, float64(n.DevicePeakBytes), n.ID, "peak")
	for kind, bytes := range map[string]int64{"resident": n.ResidentBytes, "transient": n.TransientBytes, "budget": n.BudgetBytes} {
		if bytes > 0 { // otherwise not measured, or no budget
			s.add(nodeGPUMemory, float64(bytes), n.ID, kind)
		}
	}
}

func (s series) gpu(d store.DeviceSample) {
	index := strconv.Itoa(d.Index)
	s.add(gpuInfo, 1, index, d.UUID, d.Name)
	for _, x := range []struct {
		family family
		value  float64
		kind   []string
	}{
		{gpuMemory, float64(d.MemoryTotalBytes), []string{"total"}},
		{gpuMemory, float64(d.MemoryUsedBytes), []string{"used"}},
		{gpuMemory, float64(d.UnattributedBytes), []string{"unattributed"}},
		{gpuUtilization, d.Utilization, nil},
		{gpuPower, d.PowerWatts, nil},
		{gpuPowerLimit, d.PowerLimitWatts, nil},
		{gpuTemperature, d.TemperatureCelsius, nil},
	} {
		if x.value >= 0 { // -1: not reported by the driver
			s.add(x.family, x.value, append([]string{index, d.UUID}, x.kind...)...)
		}
	}
}

var (
	runStates  = []string{store.RunRunning, store.RunDone, store.RunStopped, store.RunLost, store.RunFailed, stats.StateCrashed}
	nodeStates = texts(event.StateQueued, event.StateStarting, event.StateLoading, event.StateReplaying, event.StateWaiting,
		event.StateGenerating, event.StateScoring, event.StateSharing, event.StateBarrier, event.StateUpdating, event.StateEvaluating,
		event.StateCheckpoint, event.StateDone, event.StateStopped, event.StateFailed, event.StateGivenUp, event.StateAway, event.State(stats.StateCrashed))
	memoryCauses  = []string{event.MemoryOwnCap, event.MemoryGPU, event.MemoryNeighbour, event.MemoryHost}
	memoryActions = []string{event.ActionClearCache, event.ActionHalveMicroBatch, event.ActionCheckpointing, event.ActionOptimizerOffload,
		event.ActionParamOffload, event.ActionRestartEngine, event.ActionEnd, event.ActionShed, event.ActionCPU}
)

func texts[T ~string](all ...T) []string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = string(x)
	}
	return out
}

// oneOf limits a label to known values. Nodes report free text, and every new text would create a new series.
func oneOf(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return "other"
}
