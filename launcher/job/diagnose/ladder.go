package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Step is a remedy with a command or edits.
type Step struct {
	workload.Step
	Lines   []int  `json:"lines"`             // of each edit in its file; 0: the file or the key is missing
	Options string `json:"options,omitempty"` // the edits as overrides for the training's command line
	Command string `json:"command,omitempty"` // to copy and paste
}

func remedyStep(title, why, tradeOff, command string) Step {
	return Step{Step: workload.Step{Title: title, Why: why, TradeOff: tradeOff, Edits: []workload.Edit{}}, Lines: []int{}, Command: command}
}

// withLines adds the line numbers of a profile step's edits in the files of dir, and the edits as command-line
// overrides.
func withLines(s workload.Step, dir string) Step {
	out := Step{Step: s, Lines: []int{}}
	var options []string
	seen := map[string]bool{}
	for _, e := range s.Edits {
		line := 0
		p, err := settings.ParsePlace(e.Place)
		if err == nil {
			p.Within = true
			if got, err := settings.Get(dir, p); err == nil {
				line = got.Line
			}
			if !strings.ContainsAny(p.Key, "# []") && !seen[p.Key] {
				seen[p.Key] = true
				options = append(options, p.Key+"="+e.To)
			}
		}
		out.Lines = append(out.Lines, line)
	}
	out.Options = strings.Join(options, " ")
	return out
}

// causes returns the steps before any ladder: remedies for causes that the figures show directly.
func causes(r shortage.Report) []Step {
	var list []Step
	if r.Crowded() {
		list = append(list, remedyStep("Use a GPU without other processes", neighbours(r)+"; a smaller batch helps little here",
			"the job may have to wait", waitCommand(r)))
	}
	if r.Kind == shortage.Torch && r.Fragmented() {
		list = append(list, remedyStep("Let PyTorch's allocator reuse its reserved memory",
			fmt.Sprintf("%s are reserved but hold no tensor: the free pieces are too small (fragmentation)", units.BytesOfTorch(r.Reserved)),
			"none known; PyTorch before 2.1 needs max_split_size_mb:512 instead", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"))
	}
	return list
}

// waitCommand returns the command that waits for a GPU with enough memory for the process's usage plus its request.
func waitCommand(r shortage.Report) string {
	least := ""
	if need := r.Need(); need > 0 {
		least = fmt.Sprintf(" --min-gpu-memory %dGiB", (need+1<<30-1)>>30)
	}
	return "swarm run --wait-for-gpu 60m" + least + " -- COMMAND"
}

// otherGPU returns the step to another GPU, or to several GPUs if the need exceeds one GPU of this size.
func otherGPU(r shortage.Report) Step {
	if r.Total > 0 && r.Need() > r.Total {
		return remedyStep("More GPUs, or a larger one", fmt.Sprintf("at this batch it held and requested %s, and this GPU has %s: "+
			"parameters and optimizer can be sharded over several (FSDP, ZeRO)", units.BytesOfTorch(r.Need()), units.BytesOfTorch(r.Total)),
			"more GPUs cost more", "")
	}
	return remedyStep("Another GPU, or more of them", "one with more free memory, or parameters and optimizer sharded over several",
		"the job may have to wait", waitCommand(r))
}

// generalLadder returns the ladder of swarm run, for a training without a profile.
func generalLadder(r shortage.Report, c *clues) []Step {
	list := []Step{}
	switch r.Kind {
	case shortage.JAX:
		list = append(list, remedyStep("Let JAX allocate on demand",
			"every JAX process takes three quarters of the GPU at its start",
			"more fragmentation, a little slower", "export XLA_PYTHON_CLIENT_PREALLOCATE=false"))
	case shortage.TensorFlow:
		list = append(list, remedyStep("Let TensorFlow allocate on demand", "TensorFlow takes the whole GPU at its start",
			"more fragmentation", "export TF_FORCE_GPU_ALLOW_GROWTH=true TF_GPU_ALLOCATOR=cuda_malloc_async"))
	}
	list = append(list, halve(c))
	list = append(list,
		remedyStep("Gradient checkpointing", "activations are recomputed in the backward pass instead of stored, which usually frees the largest part",
			"about a third more computation", "model.gradient_checkpointing_enable(), or gradient_checkpointing=true in the configuration"),
		remedyStep("Half precision", "bfloat16 or float16 halves activations, and weights if they are stored in it",
			"float16 needs loss scaling; not recommended for SAPO's float32 training", "bf16=true, or torch.autocast"),
		remedyStep("Offload optimizer and parameters to the host", "Adam's state alone is twice the weights in float32",
			"transfers: 30 to 50 % slower; the host needs that memory",
			"optimizer_offload=True param_offload=True (FSDP, verl), or DeepSpeed's offload_optimizer"),
		otherGPU(r),
		remedyStep("The CPU", "host memory is larger", "very slow", "swarm run --cpu fallback -- COMMAND"))
	return list
}

// halve returns the first step, with the log's values.
func halve(c *clues) Step {
	s := remedyStep("Halve the batch and double the accumulation",
		"activations grow with the batch; batch x accumulation stays the same, and so does the training",
		"more steps for the same samples", "swarm run --batch-size N -- python train.py batch_size={batch_size} gradient_accumulation_steps={accumulate}")
	var options []string
	edit := func(keys []string, change func(int) int) {
		for _, key := range keys {
			clue, ok := c.found.Found(key)
			n, err := strconv.Atoi(clue.Value)
			if !ok || err != nil || n < 1 || n > 1<<30 || change(n) == n {
				continue
			}
			s.Edits = append(s.Edits, workload.Edit{Value: key, From: clue.Value, To: strconv.Itoa(change(n))})
			s.Lines = append(s.Lines, 0)
			options = append(options, key+"="+strconv.Itoa(change(n)))
			return
		}
	}
	edit(commonBatch, func(n int) int { return max(1, n/2) })
	if len(options) > 0 {
		edit(commonAccumulate, func(n int) int { return 2 * n })
	}
	s.Options = strings.Join(options, " ")
	return s
}

// hostLadder returns the ladder for host memory. offloads reports whether the training may offload data to the host.
func hostLadder(r shortage.Report, offloads bool) []Step {
	list := []Step{
		remedyStep("Fewer data loader processes", "each holds batches and a copy of the dataset's Python objects", "data loading may be slower",
			"num_workers=2, then 0"),
	}
	if strings.Contains(r.Line, "shared memory") {
		list = append([]Step{remedyStep("A larger /dev/shm", "data loaders pass batches through it, and a container has only 64 MB of it", "none",
			"docker run --shm-size=8g, or torch.multiprocessing.set_sharing_strategy('file_system')")}, list...)
	}
	if r.Kind == shortage.HostKilled {
		list = append(list, remedyStep("Ask for more memory", "a memory limit killed the process: Slurm's, the container's or the host's",
			"the job may have to wait", "#SBATCH --mem=64G, docker run --memory 64g; dmesg -T | grep -i oom shows which process was killed"))
		if strings.Contains(r.Line, "node running low") || strings.Contains(r.Line, "memory pressure") {
			list = append(list, remedyStep("Ray: fewer tasks at once", "Ray kills tasks when the node is 95 % full", "less parallelism",
				"@ray.remote(memory=...), num_cpus of the tasks; RAY_memory_usage_threshold=0.98 only raises the limit"))
		}
	}
	if offloads {
		list = append(list, remedyStep("Keep optimizer and parameters on the GPU", "optimizer_offload and param_offload use host memory",
			"more GPU memory", "optimizer_offload=False param_offload=False"))
	}
	return append(list,
		remedyStep("Halve the batch", "the batches, and on the CPU the activations, take half the memory",
			"more steps for the same samples; double the accumulation",
			"swarm run --batch-size N -- python train.py batch_size={batch_size} gradient_accumulation_steps={accumulate}"),
		remedyStep("Stream the data", "a memory-mapped or streamed dataset is not loaded completely", "more reading",
			"numpy.load(path, mmap_mode='r'), datasets.load_dataset(..., streaming=True)"))
}
