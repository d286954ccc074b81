package schemas

import (
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/targets"
)

// load reads the file as docker compose does, including its schema and the expansion of variables.
func load(t *testing.T, s targets.Spec) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: s.Dir, ConfigFiles: []types.ConfigFile{{Filename: s.Dir + "/compose.yaml", Content: []byte(text(t, s, "compose.yaml"))}},
		Environment: types.Mapping{"HOME": "replaced"},
	}, func(o *loader.Options) { o.SetProjectName(s.Name, false) })
	require.NoError(t, err)
	return project
}

func TestComposeLoadsTheFile(t *testing.T) {
	s := example(targets.Compose)
	s.GPUs = 2
	project := load(t, s)
	require.Equal(t, "swarm", project.Name)
	require.Len(t, project.Services, 3)
	worker := project.Services["swarm-1"]
	require.Equal(t, types.ShellCommand{"/usr/local/bin/swarm"}, worker.Entrypoint)
	require.Equal(t, types.ShellCommand{"--home", "/var/lib/swarm", "join", "--url-file", "/run/secrets/invitation", "--name", "swarm-1",
		"--nodes", "auto", "--device", "cuda", "--wait", "1h", "--model", "gpt2", "--yes"}, worker.Command)
	require.Equal(t, "on-failure:5", worker.Restart)
	require.Greater(t, time.Duration(*worker.StopGracePeriod), targets.StopSeconds*time.Second)
	require.Equal(t, types.UnitBytes(32<<30), worker.MemLimit)
	require.Equal(t, float32(8), worker.CPUS)
	require.Equal(t, []string{"2", "3"}, worker.Deploy.Resources.Reservations.Devices[0].IDs)
	require.Equal(t, "nvidia", worker.Deploy.Resources.Reservations.Devices[0].Driver)
	require.Equal(t, "invitation", worker.Secrets[0].Source)
	require.Equal(t, "swarm-1", worker.Volumes[1].Source)
	require.Equal(t, "volume", worker.Volumes[1].Type)
	require.True(t, worker.Volumes[0].ReadOnly)
	require.Contains(t, project.Volumes, "swarm-1")
	require.Contains(t, project.Secrets["invitation"].File, "/invitation")
}

func TestComposeWithoutGPUsAsksForNone(t *testing.T) {
	s := example(targets.Compose)
	s.GPUs = 0
	worker := load(t, s).Services["swarm-0"]
	require.Nil(t, worker.Deploy)
	require.Contains(t, worker.Command, "cpu")
}

func TestComposeHandsOnHostileArguments(t *testing.T) {
	s, hostile := example(targets.Compose), hostileWords(t)
	s.Name, s.Args, s.Program = "null", hostile, "/opt/$HOME/it's \"swarm\" #1: x"
	worker := load(t, s).Services["null-0"]
	require.Equal(t, hostile, []string(worker.Command[len(worker.Command)-len(hostile):]))
	require.Equal(t, s.Program, worker.Volumes[0].Source)
}

func TestComposeLoadsAsManyWorkersAsThereMayBe(t *testing.T) {
	s := example(targets.Compose)
	s.Workers = targets.MaxWorkers
	require.Len(t, load(t, s).Services, targets.MaxWorkers)
}
