package targets

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The types of the keys that the template uses, as in SkyPilot's schema of a task (sky/utils/schemas.py). The test
// rejects any other key.
var (
	skyTask = map[string]string{"name": "text", "resources": "map", "envs": "variables", "secrets": "variables", "file_mounts": "map",
		"setup": "text", "run": "text"}
	skyResources = map[string]string{"infra": "text", "accelerators": "text", "cpus": "text", "memory": "text", "use_spot": "flag", "image_id": "text",
		"job_recovery": "map"}
	skyRecovery = map[string]string{"max_restarts_on_errors": "number"}
)

// conforms checks the keys of a map and the types of its values.
func conforms(t *testing.T, got map[string]any, want map[string]string) {
	t.Helper()
	for key, value := range got {
		var ok bool
		switch want[key] {
		case "text":
			_, ok = value.(string)
		case "flag":
			_, ok = value.(bool)
		case "number":
			_, ok = value.(int)
		case "map":
			_, ok = value.(map[string]any)
		case "variables":
			variables, _ := value.(map[string]any)
			ok = len(variables) > 0
			for name, value := range variables {
				_, text := value.(string)
				ok = ok && regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) && (text || value == nil)
			}
		}
		require.True(t, ok, "%s: %T", key, value)
	}
}

// task returns worker.yaml as a YAML parser reads it.
func task(t *testing.T, s Spec) map[string]any {
	t.Helper()
	var got map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text(t, s, "worker.yaml")), &got))
	return got
}

func TestSkyPilotKnowsEveryKey(t *testing.T) {
	for _, change := range []func(*Spec){
		func(*Spec) {},
		func(s *Spec) { s.GPUs, s.GPUType = 0, "" },
		func(s *Spec) { s.Image, s.Infra, s.Spot = "", "", false },
		func(s *Spec) { s.Name = "null" },
		func(s *Spec) { s.Args = hostileWords(t) },
	} {
		s := example(SkyPilot)
		change(&s)
		got := task(t, s)
		conforms(t, got, skyTask)
		resources := got["resources"].(map[string]any)
		conforms(t, resources, skyResources)
		conforms(t, resources["job_recovery"].(map[string]any), skyRecovery)
		require.Equal(t, s.Name, got["name"])
	}
	s := example(SkyPilot)
	s.GPUs = 4
	require.Equal(t, "a100:4", task(t, s)["resources"].(map[string]any)["accelerators"])
	require.Equal(t, "32+", task(t, s)["resources"].(map[string]any)["memory"])
}

func TestSkyPilotHandsOnHostileArguments(t *testing.T) {
	s, home := example(SkyPilot), t.TempDir()
	s.Args, s.Program = hostileWords(t), "/opt/it's \"swarm\" #1: $x"
	got := task(t, s)
	require.Equal(t, s.Program, got["file_mounts"].(map[string]any)["~/.swarm-program/swarm"])
	program := filepath.Join(home, ".swarm-program", "swarm")
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/bash\nprintf '%s\\0' \"$@\"\n"), 0o755))
	cmd := exec.Command("bash", "-c", got["run"].(string))
	cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "SWARM_NAME=swarm-2", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	require.NoError(t, err)
	want := append([]string{"--home", home + "/swarm-home", "join", "--name", "swarm-2", "--nodes", "auto", "--device", "cuda", "--wait", "1h"}, s.Args...)
	require.Equal(t, strings.Join(want, "\x00")+"\x00", string(out))
	require.NoFileExists(t, filepath.Join(home, "pwned"))
}

// launch.sh starts a managed job per worker. It passes the invitation through the environment, not as an argument.
func TestSkyPilotLaunchesEachWorker(t *testing.T) {
	s, bin := example(SkyPilot), t.TempDir()
	s.Dir = filepath.Join(t.TempDir(), "it is here")
	write(t, s)
	sky := "#!/bin/bash\nprintf '%s ' \"$@\"\necho \"$(pwd) $SWARM_JOIN\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sky"), []byte(sky), 0o755))
	cmd := exec.Command(filepath.Join(s.Dir, "launch.sh"), "--cloud", "gcp")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.Output()
	require.NoError(t, err)
	want := ""
	for _, i := range s.Indices() {
		name := s.Worker(i)
		want += "jobs launch --yes --detach-run --name " + name + " --env SWARM_NAME=" + name + " --secret SWARM_JOIN --cloud gcp worker.yaml " +
			s.Dir + " " + s.Invitation + "\n"
	}
	require.Equal(t, want, string(out))
}
