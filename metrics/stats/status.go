package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// RewardWindow is the number of newest rounds that a node's recent reward averages.
const RewardWindow = 10

// StateCrashed is the state of a run that is recorded as running although its coordinator's process is gone, and of its
// nodes.
const StateCrashed = "crashed"

// Status is the document of `swarm status -o json`. Fields are only ever added.
type Status struct {
	Experiment       string       `json:"experiment"`
	Run              string       `json:"run"`
	State            string       `json:"state"`  // running, done, stopped, lost, failed, crashed
	Round            int          `json:"round"`  // rounds finished by every present node: not given up, not away, not left
	Rounds           int          `json:"rounds"` // planned
	CumulativeReward float64      `json:"cumulative_reward"`
	ETASeconds       *float64     `json:"eta_seconds"` // null: not known yet, or not running
	Nodes            []NodeStatus `json:"nodes"`

	Message         string    `json:"message,omitempty"` // why the run ended; for a crashed run, what is known
	Command         *Command  `json:"command,omitempty"` // command that started the newest attempt; absent: not recorded
	Model           string    `json:"model"`
	Device          string    `json:"device"`
	Started         float64   `json:"started"`         // Unix seconds
	LastSeen        float64   `json:"last_seen"`       // Unix seconds: now if it is running, its end, or the last sign of life of a crashed run
	ElapsedSeconds  float64   `json:"elapsed_seconds"` // active time: sum over attempts, without pauses
	SecondsPerRound *float64  `json:"seconds_per_round"`
	Reward          *float64  `json:"reward"`         // mean over nodes of the newest finished round
	RecentRewards   []float64 `json:"recent_rewards"` // mean over nodes, of up to 60 finished rounds, newest last
	NodesAlive      int       `json:"nodes_alive"`    // present nodes: not given up, not away, not left
	NodesPlanned    int       `json:"nodes_planned"`  // including nodes of workers
	Restarts        int       `json:"restarts"`
	MemoryBytes     int64     `json:"memory_bytes"` // over nodes of the coordinator's host
	HostBytes       int64     `json:"host_bytes"`   // host memory, sum over the same nodes
	HostKind        string    `json:"host_kind"`    // pss if known for each of them, else rss, which may count shared memory more than once
	PID             int       `json:"pid"`          // of the coordinator

	Attempts        int      `json:"attempts"`          // 1 + times resumed
	ActiveSeconds   float64  `json:"active_seconds"`    // equals elapsed_seconds
	ReplayedRounds  int      `json:"replayed_rounds"`   // updates reapplied from journals, sum over nodes
	EvalReward      *float64 `json:"eval_reward"`       // newest held-out evaluation: mean over nodes, questions and completions; null: none
	EvalRound       int      `json:"eval_round"`        // rounds that the evaluated weights were trained for
	FirstEvalReward *float64 `json:"first_eval_reward"` // first evaluation of the same questions; null: there is only one
	PricePerHour    *float64 `json:"price_per_hour"`    // null: unknown
	PriceCurrency   string   `json:"price_currency"`    // as configured: $, EUR
	Cost            *float64 `json:"cost"`              // so far: active hours times price; null: no price
	ProjectedCost   *float64 `json:"projected_cost"`    // at the end of the run; null: no price, or no eta_seconds

	Alarm *Alarm `json:"alarm,omitempty"` // the newest; absent: there was none

	EngineHost *EngineHost `json:"engine_host,omitempty"` // absent: none is running, or the run is on another host

	Workers          int `json:"workers"`           // other hosts that joined
	WorkersConnected int `json:"workers_connected"` // of these, connected now
}

// Alarm is an alarm of a run.
type Alarm struct {
	event.Alarm
	Time float64 `json:"time"` // Unix seconds
	Try  string  `json:"try"`
}

// EngineHost is the process that forks engines. Its memory does not count for any node.
type EngineHost struct {
	PID      int   `json:"pid"`
	RSSBytes int64 `json:"rss_bytes"`
	PSSBytes int64 `json:"pss_bytes"` // proportional share of the pages shared with engines; 0: unknown
}

// NodeStatus is one node of a Status.
type NodeStatus struct {
	ID               string   `json:"id"`
	State            string   `json:"state"`
	Round            int      `json:"round"`  // finished rounds, including those before the node joined
	Reward           *float64 `json:"reward"` // of its newest round; null: none, or not finite
	CumulativeReward float64  `json:"cumulative_reward"`
	MemoryBytes      int64    `json:"memory_bytes"` // device memory if it uses any, else host memory
	PeakMemoryBytes  int64    `json:"peak_memory_bytes"`
	Restarts         int      `json:"restarts"`
	PID              int      `json:"pid"` // 0: no process

	Device          string   `json:"device"`        // cpu, cuda:0; empty until the model is loaded
	EnginePID       int      `json:"engine_pid"`    // 0: none
	RecentReward    *float64 `json:"recent_reward"` // mean of its last 10 rounds
	RSSBytes        int64    `json:"rss_bytes"`
	PeakRSSBytes    int64    `json:"peak_rss_bytes"`
	PSSBytes        int64    `json:"pss_bytes"` // 0: unknown
	PeakPSSBytes    int64    `json:"peak_pss_bytes"`
	HostBytes       int64    `json:"host_bytes"` // pss_bytes if known, else rss_bytes; host_kind tells which
	PeakHostBytes   int64    `json:"peak_host_bytes"`
	HostKind        string   `json:"host_kind"` // pss, rss
	DeviceBytes     int64    `json:"device_bytes"`
	DevicePeakBytes int64    `json:"device_peak_bytes"`
	ResidentBytes   int64    `json:"resident_bytes"`  // between phases; 0: not measured yet
	TransientBytes  int64    `json:"transient_bytes"` // peak of a phase, beyond resident
	BudgetBytes     int64    `json:"budget_bytes"`    // limit on its GPU; 0: no budget
	MicroBatch      int      `json:"micro_batch"`     // sequences per forward pass of its updates
	WorkingRound    int      `json:"working_round"`   // current round, from 0; for a replaying node the round being reapplied
	ReplayedRounds  int      `json:"replayed_rounds"` // updates reapplied from its journal, over all its starts
	ReplaySeconds   float64  `json:"replay_seconds"`
	Cause           string   `json:"cause,omitempty"` // of its newest failure
	Message         string   `json:"message,omitempty"`

	Model        string `json:"model,omitempty"` // model that it loaded, if the run's nodes have different ones
	Worker       string `json:"worker"`          // owner of the node; empty: the coordinator's host
	From         int    `json:"from"`            // first round in which it took part
	GenerateOnly bool   `json:"generate_only"`   // it shares rollouts and never trains
}

// NewStatus describes a snapshot at the time now, in Unix seconds. The caller checks whether the run's coordinator
// still runs (Run.Host, PID, StartTicks, BootID) and passes the result as coordinatorAlive.
func NewStatus(s store.Snapshot, now float64, coordinatorAlive bool) Status {
	run := s.Run
	out := Status{
		Experiment: run.Experiment, Run: run.Run, State: run.State, Rounds: run.Rounds, Message: run.Message, Model: run.Model,
		Device: run.Device, Started: run.Started, NodesPlanned: run.Nodes, PID: run.PID, Attempts: run.Attempts,
		Nodes: make([]NodeStatus, 0, len(s.Nodes)), RecentRewards: []float64{}, HostKind: store.HostPSS,
	}
	if run.State == store.RunRunning && !coordinatorAlive {
		out.State = StateCrashed
		out.Message = "" // unknown; metrics/wording says so
	}
	recent := map[string][]float64{}
	for _, r := range s.Recent {
		recent[r.Node] = append(recent[r.Node], r.Reward)
	}
	for _, n := range s.Nodes {
		rewards := recent[n.Node]
		node := newNodeStatus(n, rewards[max(0, len(rewards)-RewardWindow):])
		if out.State != store.RunRunning {
			node.gone(out.State)
		}
		out.Nodes = append(out.Nodes, node)
		out.CumulativeReward += n.CumulativeReward
		out.Restarts += n.Restarts
		out.ReplayedRounds += n.ReplayedRounds
		if n.There() {
			out.NodesAlive++
		}
		if n.Worker != "" {
			out.NodesPlanned++
			continue
		}
		out.MemoryBytes += node.MemoryBytes
		out.HostBytes += node.HostBytes
		if node.HostKind != store.HostPSS && node.PeakHostBytes > 0 {
			out.HostKind = store.HostRSS
		}
		if out.Model == "" {
			out.Model = n.Model
		}
		if out.Device == "" {
			out.Device = n.Device
		}
	}
	nameModels(out.Nodes, s.Nodes)
	out.Round = store.RoundsDone(s.Nodes)
	if s.Command != nil {
		out.Command = newCommand(*s.Command)
	}
	if n := len(s.Alarms); n > 0 {
		newest := s.Alarms[n-1]
		out.Alarm = &Alarm{newest.Alarm, newest.Time, newest.Advice}
	}
	out.addWorkers(s.Workers)
	out.addPace(s, now)
	out.addMoney(run)
	if n := len(s.Evals); n > 0 {
		first, newest := s.Evals[0], s.Evals[n-1]
		out.EvalReward, out.EvalRound = evalReward(newest), newest.Round
		if first.Set == newest.Set && first.Round < newest.Round {
			out.FirstEvalReward = evalReward(first)
		}
	}
	return out
}

func (out *Status) addPace(s store.Snapshot, now float64) {
	var done []SwarmRound
	for _, r := range SwarmRounds(s.Recent) {
		if r.Round >= out.Round {
			break
		}
		done = append(done, r)
		if units.Finite(r.Reward) {
			out.RecentRewards = append(out.RecentRewards, r.Reward)
			out.Reward = Optional(r.Reward)
		}
	}
	pace := Pace(done, s.Attempts)
	out.SecondsPerRound = Optional(pace)
	attempts := s.Attempts
	switch {
	case out.State == store.RunRunning:
		attempts, now = untilNow(attempts, now)
		since := s.Run.Resumed
		if len(done) > 0 {
			since = max(since, done[len(done)-1].End)
		}
		out.ETASeconds = Optional(ETA(pace, out.Rounds-out.Round, now-since))
	case s.Run.Ended > 0:
		now = s.Run.Ended
	case out.State == StateCrashed:
		now = lastSeen(s)
	}
	out.LastSeen = now
	out.ElapsedSeconds = Elapsed(attempts, math.Inf(1))
	if len(attempts) == 0 { // recorded by a program without attempts
		out.ElapsedSeconds = max(0, now-s.Run.Started)
	}
	out.ActiveSeconds = out.ElapsedSeconds
}

func (out *Status) addMoney(run store.Run) {
	if out.Cost = Cost(out.ActiveSeconds, run.PricePerHour); out.Cost == nil {
		return
	}
	out.PricePerHour, out.PriceCurrency = &run.PricePerHour, run.PriceCurrency
	if out.ETASeconds != nil {
		out.ProjectedCost = Cost(out.ActiveSeconds+*out.ETASeconds, run.PricePerHour)
	}
}

func newNodeStatus(n store.Node, recent []float64) NodeStatus {
	switch n.State {
	case event.StateQueued, event.StateStarting, event.StateDone, event.StateStopped, event.StateFailed, event.StateGivenUp:
		n.RSSBytes, n.PSSBytes, n.DeviceBytes, n.EnginePID = 0, 0, 0, 0 // figures of the previous process
	}
	out := NodeStatus{
		ID: n.Node, State: string(n.Shown()), Round: n.Position(), Reward: Optional(n.LastReward), CumulativeReward: n.CumulativeReward,
		Restarts: n.Restarts, PID: n.PID, WorkingRound: n.WorkingRound, ReplayedRounds: n.ReplayedRounds, ReplaySeconds: n.ReplaySeconds,
		RecentReward: Optional(sample.Mean(recent)), RSSBytes: n.RSSBytes, PeakRSSBytes: n.PeakRSSBytes,
		PSSBytes: n.PSSBytes, PeakPSSBytes: n.PeakPSSBytes,
		DeviceBytes: n.DeviceBytes, DevicePeakBytes: n.DevicePeakBytes,
		ResidentBytes: n.ResidentBytes, TransientBytes: max(n.GenerateBytes, n.UpdateBytes), BudgetBytes: n.BudgetBytes,
		MicroBatch: n.MicroBatch, Device: n.Device, EnginePID: n.EnginePID, Cause: n.Cause, Message: n.Message,
		Worker: n.Worker, From: n.From, GenerateOnly: n.GenerateOnly,
	}
	out.HostBytes, out.PeakHostBytes, out.HostKind = n.Host()
	out.MemoryBytes, out.PeakMemoryBytes = out.HostBytes, out.PeakHostBytes
	if n.DevicePeakBytes > 0 {
		out.MemoryBytes, out.PeakMemoryBytes = out.DeviceBytes, out.DevicePeakBytes
	}
	return out
}

// nameModels sets each node's model if they have different ones.
func nameModels(rows []NodeStatus, nodes []store.Node) {
	known := map[string]bool{}
	for _, n := range nodes {
		if n.Model != "" {
			known[n.Model] = true
		}
	}
	if len(known) < 2 {
		return
	}
	for i, n := range nodes {
		rows[i].Model = n.Model
	}
}

// gone updates a node without a process, given the state of its run.
func (n *NodeStatus) gone(run string) {
	n.PID, n.EnginePID, n.RSSBytes, n.PSSBytes, n.HostBytes, n.DeviceBytes, n.MemoryBytes = 0, 0, 0, 0, 0, 0, 0
	switch event.State(n.State) {
	case event.StateDone, event.StateStopped, event.StateFailed, event.StateGivenUp, event.StateAway:
		return
	}
	switch {
	case n.Worker != "":
		n.State = string(event.StateAway) // its host may still train it
	case run == StateCrashed:
		n.State = StateCrashed
	case run == store.RunDone:
		n.State = string(event.StateDone)
	default:
		n.State = string(event.StateStopped)
	}
}

// addWorkers counts the workers.
func (out *Status) addWorkers(workers []store.Worker) {
	out.Workers = len(workers)
	for _, w := range workers {
		if w.State == event.WorkerConnected && out.State == store.RunRunning {
			out.WorkersConnected++
		}
	}
}
