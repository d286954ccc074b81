package systemd

import (
	"regexp"
	"slices"
	"strings"
)

// variables are kept from the environment in which a service is installed, besides SWARM_…. They decide which
// Python, GPU and models swarm up finds. The list has no secrets such as HF_TOKEN.
var variables = []string{
	"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_DATA_HOME", "XDG_CACHE_HOME",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TMPDIR",
	"EXPERIMENT_NAME", "NODE_ROLE", "NODE_ID", "MODEL_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS",
	"SEED", "GDRIVE_PATH",
}

// secretName matches variables that must not be in a file that others can read.
var secretName = regexp.MustCompile(`(?i)token|secret|password|passwd|credential|webhook|(^|_)key($|_)|^SWARM_JOIN$`) // SWARM_JOIN: an invitation

// Environment selects the variables to keep in a unit from environ, which has the form of os.Environ. left has the
// names of variables that it drops although swarm would read them.
func Environment(environ []string) (kept, left []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "SWARM_") && !slices.Contains(variables, name) {
			if name == "HF_TOKEN" {
				left = append(left, name)
			}
			continue
		}
		if secretName.MatchString(name) {
			left = append(left, name)
			continue
		}
		kept = append(kept, v)
	}
	slices.Sort(kept)
	slices.Sort(left)
	return kept, left
}
