// Package hermetic isolates tests from the files and settings of the user who runs them. Only tests import it.
package hermetic

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours lists the variables that the tests themselves read. Enter removes all other variables that configure the
// program.
var ours = []string{"SWARM_PYTHON", "SWARM_PROGRAM", "SWARM_SCREENSHOTS", "SWARM_TENSORBOARD", "SWARM_ESTIMATE_GRID"}

// foreign lists the variables of rl-swarm, the Hugging Face hub and CUDA that the program reads.
var foreign = []string{
	"EXPERIMENT_NAME", "MODEL_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS", "SEED", "NODE_ROLE", "NODE_ID",
	"GDRIVE_PATH", "HUGGINGFACE_HUB_CACHE", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
}

// Main runs a package's tests between Enter and leave, and returns the exit code.
func Main(m *testing.M) int {
	leave, err := Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer leave()
	return m.Run()
}

// Enter gives this process and its children an empty home folder and removes the variables that configure the
// program. Go's caches and the user's pip packages stay in use. leave removes the folder and restores the
// variables.
func Enter() (leave func(), err error) {
	home, err := os.MkdirTemp("", "swarm-home-")
	if err != nil {
		return nil, err
	}
	before := os.Environ()
	for name, value := range keep() {
		os.Setenv(name, value)
	}
	for _, entry := range before {
		if name, _, _ := strings.Cut(entry, "="); configures(name) {
			os.Unsetenv(name)
		}
	}
	for name, folder := range map[string]string{
		"HOME": "", "XDG_CONFIG_HOME": ".config", "XDG_CACHE_HOME": ".cache", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state",
		"XDG_RUNTIME_DIR": ".run", // sockets: only the owner may enter
	} {
		path := filepath.Join(home, folder)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		os.Setenv(name, path)
	}
	// The go command counts its own use in the user's home, even after it has ended.
	telemetry := filepath.Join(home, ".config", "go", "telemetry")
	if err := errors.Join(os.MkdirAll(telemetry, 0o700), os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off\n"), 0o600)); err != nil {
		return nil, err
	}
	return func() {
		os.Clearenv()
		for _, entry := range before {
			if name, value, _ := strings.Cut(entry, "="); name != "" {
				os.Setenv(name, value)
			}
		}
		os.RemoveAll(home)
	}, nil
}

// configures reports whether the variable name is a setting of the program.
func configures(name string) bool {
	name = strings.TrimPrefix(name, "_")
	if slices.Contains(ours, name) || strings.HasPrefix(name, "SWARM_TEST_") {
		return false
	}
	return slices.Contains(foreign, name) || strings.HasPrefix(name, "SWARM_") || strings.HasPrefix(name, "HF_")
}

// keep returns variables for the places below the user's home where Go and Python find their files by default.
func keep() map[string]string {
	kept := map[string]string{}
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("PYTHONUSERBASE") == "" {
		kept["PYTHONUSERBASE"] = filepath.Join(home, ".local")
	}
	names := []string{"GOPATH", "GOMODCACHE", "GOCACHE", "GOENV"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return kept // no Go on this host: the tests build nothing
	}
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if i < len(names) && value != "" {
			kept[names[i]] = value
		}
	}
	return kept
}
