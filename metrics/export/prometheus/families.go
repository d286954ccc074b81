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
	runInfo = gauge("swarm_run_info", "Always 1. The labels describe the run; config is I/J.",
		"config", "preset", "model", "device", "seed")
	runState         = gauge("swarm_run_state", "1 for the run's current state.", "state")
	runRounds        = gauge("swarm_run_rounds", "Rounds done by all present nodes (not given up, away or left).")
	runRoundsPlanned = gauge("swarm_run_rounds_planned", "Rounds planned.")
	runNodesAlive    = gauge("swarm_run_nodes_alive", "Present nodes: not given up, away or left.")
	runNodesPlanned  = gauge("swarm_run_nodes_planned", "Planned nodes and the nodes of workers.")
	runReward        = gauge("swarm_run_reward", "Reward of the newest finished round, mean over nodes, 0 to 1.")
	cumulativeReward = gauge("swarm_cumulative_reward", "Sum of rewards over nodes and rounds.")
	runStart         = gauge("swarm_run_start_time_seconds", "Time of the run's first start, Unix time.")
	runElapsed       = gauge("swarm_run_elapsed_seconds", "Active time over all attempts, without the pauses between them.")
	runActive        = gauge("swarm_run_active_seconds", "The same as swarm_run_elapsed_seconds.")
	runRoundTime     = gauge("swarm_run_round_duration_seconds", "Recent wall time per round.")
	runETA           = gauge("swarm_run_eta_seconds", "Estimated time left; absent if unknown or after the run's end.")
	runCost          = gauge("swarm_run_cost", "Cost of the active time at the machine's price, in its currency; absent without a price.", "currency")
	runProjectedCost = gauge("swarm_run_projected_cost", "Estimated cost at the run's end; absent without a price or a time left.", "currency")
	runAttempts      = counter("swarm_run_attempts_total", "Attempts: 1 plus the number of resumes.")
	outOfMemory      = counter("swarm_out_of_memory_total", "Steps taken because memory ran out.", "cause", "action")
)

var (
	rounds               = counter("swarm_rounds_total", "Rounds done by the node.", "node")
	nodeState            = gauge("swarm_node_state", "1 for the node's current state.", "node", "state")
	nodeReward           = gauge("swarm_node_reward", "Reward of the node's newest round, 0 to 1.", "node")
	nodeRecentReward     = gauge("swarm_node_recent_reward", "Mean reward of the node's last 10 rounds, 0 to 1.", "node")
	nodeCumulativeReward = gauge("swarm_node_cumulative_reward", "Sum of the node's rewards over its rounds.", "node")
	nodeRestarts         = counter("swarm_node_restarts_total", "Restarts of the node.", "node")
	nodeGPUMemory        = gauge("swarm_node_gpu_memory_bytes",
		"Device memory of the node: allocated, its peak, resident between phases, transient beyond that, its budget.", "node", "kind")
	nodeHostMemory = gauge("swarm_node_host_memory_bytes",
		"Host memory of the node's processes: resident (RSS) now, its peak; proportional (PSS), where shared memory counts once, its peak.", "node", "kind")
)

var (
	workerUp      = gauge("swarm_worker_up", "1 for a worker that is connected, else 0.", "worker")
	workerNodes   = gauge("swarm_worker_nodes", "Nodes of the worker.", "worker")
	workerOffered = counter("swarm_worker_batches_offered_total",
		"Batches of rollouts that the worker offered, since the coordinator's newest start.", "worker")
	workerRefused  = counter("swarm_worker_batches_refused_total", "Batches of these that the coordinator refused.", "worker")
	workerReceived = counter("swarm_worker_received_bytes_total", "Bytes that the worker sent, since the coordinator's newest start.", "worker")
	workerLastSeen = gauge("swarm_worker_last_seen_timestamp_seconds", "Time of the worker's last message, Unix time.", "worker")
	workerUseful   = gauge("swarm_worker_useful_ratio",
		"Share of the worker's rollouts that others' nodes did not reject, 0 to 1; absent if no node received any.", "worker")
	workerUsed = gauge("swarm_worker_used_ratio",
		"Share of the worker's rollouts received by others' nodes that they trained on, 0 to 1; absent if no node received any.", "worker")
)

var (
	gpuInfo        = gauge("swarm_gpu_info", "Always 1. The label has the GPU's name.", "gpu", "uuid", "name")
	gpuMemory      = gauge("swarm_gpu_memory_bytes", "Memory of the GPU: total, used, and used by none of the run's nodes.", "gpu", "uuid", "kind")
	gpuUtilization = gauge("swarm_gpu_utilization_ratio", "Share of time in which the GPU computed, 0 to 1.", "gpu", "uuid")
	gpuPower       = gauge("swarm_gpu_power_watts", "Power drawn by the GPU.", "gpu", "uuid")
	gpuPowerLimit  = gauge("swarm_gpu_power_limit_watts", "Power limit of the GPU.", "gpu", "uuid")
	gpuTemperature = gauge("swarm_gpu_temperature_celsius", "Temperature of the GPU.", "gpu", "uuid")
)
