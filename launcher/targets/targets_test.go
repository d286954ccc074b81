package targets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

const token = "c2VjcmV0LXRva2Vu"

// example returns a valid Spec for the target.
func example(target string) Spec {
	return Spec{
		Target: target, Name: "swarm", Workers: 3, Args: []string{"--model", "gpt2", "--yes"}, Nodes: "auto", GPUs: 1, GPUType: "a100", CPUs: 8,
		Memory: 32 << 30, Invitation: "tls://203.0.113.7:4222?fp=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA#" + token,
		Dir: "/home/anna/jobs", Program: "/opt/swarm",
		Time: "24:00:00", Partition: "gpu", Account: "lab-7", Image: "registry.example.com/swarm:1", Namespace: "default", Storage: 20 << 30,
		StorageClass: "fast", Spot: true, Infra: "aws/us-east-1",
	}
}

var targets = []string{Slurm, Kubernetes, SkyPilot, Compose}

// write writes a target's files into a folder as swarm generate does, and returns the folder.
func write(t *testing.T, s Spec) string {
	t.Helper()
	files, err := s.Files()
	require.NoError(t, err)
	for _, f := range files {
		path := filepath.Join(s.Dir, f.Name)
		if f.Name[len(f.Name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, f.Mode))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(f.Text), f.Mode))
	}
	return s.Dir
}

// text returns the text of one of the files.
func text(t *testing.T, s Spec, name string) string {
	t.Helper()
	files, err := s.Files()
	require.NoError(t, err)
	for _, f := range files {
		if f.Name == name {
			return f.Text
		}
	}
	t.Fatalf("no file %s for %s", name, s.Target)
	return ""
}

func TestTheInvitationStandsInItsSecretFileAlone(t *testing.T) {
	for _, target := range targets {
		files, err := example(target).Files()
		require.NoError(t, err)
		secrets := 0
		for _, f := range files {
			if f.Secret {
				secrets++
				require.Equal(t, os.FileMode(0o600), f.Mode, f.Name)
				require.Contains(t, f.Text, token, f.Name)
				continue
			}
			require.NotContains(t, f.Text, token, f.Name)
		}
		require.Equal(t, 1, secrets, target)
		require.False(t, files[0].Secret, "the first file can be printed")
	}
}

func TestAFolderNeedsNoInvitation(t *testing.T) {
	s := example(Slurm)
	s.Invitation, s.Args = "", []string{"--shared", "/nfs/swarm", "--experiment", "4loc4ext"}
	files, err := s.Files()
	require.NoError(t, err)
	for _, f := range files {
		require.False(t, f.Secret, f.Name)
	}
	require.NotContains(t, files[0].Text, "--url-file")
	require.Contains(t, files[0].Text, "--shared /nfs/swarm --experiment 4loc4ext")
}

func TestBadValuesAreNamedWithWhatIsAllowed(t *testing.T) {
	for _, c := range []struct {
		target, want string
		change       func(*Spec)
	}{
		{"pbs", `bad target "pbs": allowed: slurm, kubernetes, skypilot, compose`, func(*Spec) {}},
		{Slurm, `bad workers "0": allowed: 1 to 1024`, func(s *Spec) { s.Workers = 0 }},
		{Slurm, `bad workers "1025"`, func(s *Spec) { s.Workers = 1025 }},
		{Compose, `bad name "Swarm": allowed: lowercase letters, digits`, func(s *Spec) { s.Name = "Swarm" }},
		{Kubernetes, `bad name "-x"`, func(s *Spec) { s.Name = "-x" }},
		{Kubernetes, `bad name "a.b"`, func(s *Spec) { s.Name = "a.b" }},
		{Kubernetes, `at most 19`, func(s *Spec) { s.Name = "abcdefghijabcdefghij" }},
		{Slurm, `bad name`, func(s *Spec) { s.Name = "a\n#SBATCH --wrap=id" }},
		{Slurm, `bad nodes "0"`, func(s *Spec) { s.Nodes = "0" }},
		{Slurm, `bad nodes "many": allowed: auto, or 1 to 64`, func(s *Spec) { s.Nodes = "many" }},
		{Slurm, `bad gpus-per-worker "-1"`, func(s *Spec) { s.GPUs = -1 }},
		{Slurm, `bad gpu-type "a100:8 --x"`, func(s *Spec) { s.GPUType = "a100:8 --x" }},
		{SkyPilot, `--gpu-type is missing`, func(s *Spec) { s.GPUType = "" }},
		{Slurm, `bad cpus "0"`, func(s *Spec) { s.CPUs = 0 }},
		{Slurm, `bad memory "1000"`, func(s *Spec) { s.Memory = 1000 }},
		{Slurm, `bad partition "gpu\n#SBATCH --wrap=id"`, func(s *Spec) { s.Partition = "gpu\n#SBATCH --wrap=id" }},
		{Slurm, `bad account "a b"`, func(s *Spec) { s.Account = "a b" }},
		{Slurm, `bad time "tomorrow"`, func(s *Spec) { s.Time = "tomorrow" }},
		{Slurm, `at least 15 minutes`, func(s *Spec) { s.Time = "14:59" }},
		{Slurm, `bad out`, func(s *Spec) { s.Dir = `/a"b` }},
		{Slurm, `bad scratch "tmp"`, func(s *Spec) { s.Scratch = "tmp" }},
		{Compose, `bad out "/a\nb"`, func(s *Spec) { s.Dir = "/a\nb" }},
		{Compose, `bad program "swarm": allowed: an absolute path`, func(s *Spec) { s.Program = "swarm" }},
		{Kubernetes, `--image is missing: allowed: an image with swarm`, func(s *Spec) { s.Image = "" }},
		{Kubernetes, `bad image "a b"`, func(s *Spec) { s.Image = "a b" }},
		{Kubernetes, `bad namespace "My_Space"`, func(s *Spec) { s.Namespace = "My_Space" }},
		{Kubernetes, `bad storage "1"`, func(s *Spec) { s.Storage = 1 }},
		{Kubernetes, `bad storage-class "Fast!"`, func(s *Spec) { s.StorageClass = "Fast!" }},
		{SkyPilot, `bad infra "$(id)"`, func(s *Spec) { s.Infra = "$(id)" }},
		{Compose, `bad url ""`, func(s *Spec) { s.Invitation = "" }},
		{Slurm, `bad url`, func(s *Spec) { s.Invitation = "tls://h:1#$(id)" }},
		{Slurm, `bad argument`, func(s *Spec) { s.Args = []string{"a\x00b"} }},
		{Slurm, `bad argument`, func(s *Spec) { s.Args = []string{"\xff"} }},
	} {
		s := example(c.target)
		c.change(&s)
		_, err := s.Files()
		var bad *configs.Error
		require.ErrorAs(t, err, &bad, c.want)
		require.Contains(t, err.Error(), c.want)
		require.NotContains(t, err.Error(), token)
	}
}

func TestSbatchTimeLimits(t *testing.T) {
	for text, want := range map[string]bool{
		"15": true, "14": false, "15:00": true, "0:14:59": false, "24:00:00": true, "3-0": true, "0-0:15": true, "1-12:30:00": true,
		"": false, "1h": false, "-5": false, "1-2-3": false, "1:2:3:4": false, "UNLIMITED": false, "999999999999999999999": false,
	} {
		require.Equal(t, want, timeOK(text), text)
	}
}

func TestSizesAreRoundedUp(t *testing.T) {
	require.Equal(t, int64(30518), Spec{}.MiB(32e9))
	require.Equal(t, int64(32768), Spec{}.MiB(32<<30))
	require.Equal(t, int64(30), Spec{}.GiB(32e9))
}

// On a host with all GPUs, each worker gets GPUs of its own.
func TestWorkersOfOneHostShareNoGPU(t *testing.T) {
	s := Spec{Workers: 3, GPUs: 2}
	var all []string
	for _, i := range s.Indices() {
		all = append(all, s.GPUIDs(i)...)
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, all)
}
