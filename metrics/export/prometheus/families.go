package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"
)

// family is a metric with its unit and labels. The first labels of all families are run and experiment.
type family struct {
	name string
	desc *prom.Desc
	kind prom.ValueType
}

func newFamily(kind prom.ValueType, name, help string, labels []string) family {
	f := family{name: name, kind: kind, desc: prom.NewDesc(name, help, append([]string{"run", "experiment"}, labels...), nil)}
	described = append(described, f.desc)
	return f
}

func gauge(name, help string, labels ...string) family {
	return newFamily(prom.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) family {
	return newFamily(prom.CounterValue, name, help, labels)
}

// described lists the descriptions of all families.
var described []*prom.Desc

var (
	runInfo = gauge("swarm_run_info", "1, with what the run was started as; config is I/J.",
		"config", "preset", "model", "device", "seed")
	runState         = gauge("swarm_run_state", "1 for the state that the run is in.", "state")
	runRounds        = gauge("swarm_run_rounds", "Rounds done by every node that is there: it hasn't given up, isn't away and hasn't left.")
	runRoundsPlanned = gauge("swarm_run_rounds_planned", "Rounds planned.")
	runNodesAlive    = gauge("swarm_run_nodes_alive", "Nodes that are there: not given up, away or gone.")
	runNodesPlanned  = gauge("swarm_run_nodes_planned", "Nodes planned, and those that workers brought.")
	runReward        = gauge("swarm_run_reward", "Mean over nodes of the reward of the newest round that is done, 0 to 1.")
	cumulativeReward = gauge("swarm_cumulative_reward", "Sum of rewards over nodes and rounds.")
	runStart         = gauge("swarm_run_start_time_seconds", "When the run was first started, Unix time.")
	runElapsed       = gauge("swarm_run_elapsed_seconds", "Time at work: over attempts, without the pauses between them.")
	runActive        = gauge("swarm_run_active_seconds", "The same as swarm_run_elapsed_seconds.")
	runRoundTime     = gauge("swarm_run_round_duration_seconds", "Pace: wall time a round, of late.")
	runETA           = gauge("swarm_run_eta_seconds", "Time left at that pace; absent while unknown and once the run has ended.")
	runCost          = gauge("swarm_run_cost", "Active time at the machine's price, in that currency; absent without a price.", "currency")
	runProjectedCost = gauge("swarm_run_projected_cost", "Cost once the run is done; absent without a price or a time left.", "currency")
	runAttempts      = counter("swarm_run_attempts_total", "Times that a coordinator had the run: 1 and the times it was resumed.")
	outOfMemory      = counter("swarm_out_of_memory_total", "Steps taken because memory ran out.", "cause", "action")
)

var (
	rounds               = counter("swarm_rounds_total", "Rounds that the node has done.", "node")
	nodeState            = gauge("swarm_node_state", "1 for the state that the node is in.", "node", "state")
	nodeReward           = gauge("swarm_node_reward", "Reward of the node's newest round, 0 to 1.", "node")
	nodeRecentReward     = gauge("swarm_node_recent_reward", "Mean reward of the node's last 10 rounds, 0 to 1.", "node")
	nodeCumulativeReward = gauge("swarm_node_cumulative_reward", "Sum of the node's rewards over its rounds.", "node")
	nodeRestarts         = counter("swarm_node_restarts_total", "Times that the node was started again.", "node")
	nodeGPUMemory        = gauge("swarm_node_gpu_memory_bytes",
		"Device memory of the node: allocated, its peak, resident between phases, transient beyond that, its budget.", "node", "kind")
	nodeHostMemory = gauge("swarm_node_host_memory_bytes",
		"Host memory of the node's processes: resident (RSS) now, its peak; proportional (PSS), where shared memory counts once, its peak.", "node", "kind")
)

var (
	workerUp      = gauge("swarm_worker_up", "1 for a worker that is connected, else 0.", "worker")
	workerNodes   = gauge("swarm_worker_nodes", "Nodes that the worker brought.", "worker")
	workerOffered = counter("swarm_worker_batches_offered_total",
		"Batches of rollouts that the worker offered, since the coordinator's newest start.", "worker")
	workerRefused  = counter("swarm_worker_batches_refused_total", "Batches of these that the coordinator refused.", "worker")
	workerReceived = counter("swarm_worker_received_bytes_total", "Bytes that the worker sent, since the coordinator's newest start.", "worker")
	workerLastSeen = gauge("swarm_worker_last_seen_timestamp_seconds", "When the worker was last heard of, Unix time.", "worker")
	workerUseful   = gauge("swarm_worker_useful_ratio",
		"Share of the worker's rollouts that others' nodes did not reject, 0 to 1; absent if no node received any.", "worker")
	workerUsed = gauge("swarm_worker_used_ratio",
		"Share of the worker's rollouts, as received by others' nodes, that these trained on, 0 to 1; absent if no node received any.", "worker")
)

var (
	gpuInfo        = gauge("swarm_gpu_info", "1, with the GPU's name.", "gpu", "uuid", "name")
	gpuMemory      = gauge("swarm_gpu_memory_bytes", "Memory of the GPU: total, used, and used by none of the run's nodes.", "gpu", "uuid", "kind")
	gpuUtilization = gauge("swarm_gpu_utilization_ratio", "Share of time in which the GPU computed, 0 to 1.", "gpu", "uuid")
	gpuPower       = gauge("swarm_gpu_power_watts", "Power drawn by the GPU.", "gpu", "uuid")
	gpuPowerLimit  = gauge("swarm_gpu_power_limit_watts", "Power limit of the GPU.", "gpu", "uuid")
	gpuTemperature = gauge("swarm_gpu_temperature_celsius", "Temperature of the GPU.", "gpu", "uuid")
)
