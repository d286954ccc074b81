package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/targets"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

const anInvitation = "tls://203.0.113.7:4222?fp=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA#c2VjcmV0LXRva2Vu"

// generate runs swarm generate in a given folder, without an invitation in the environment.
func generate(t *testing.T, home, dir string, args ...string) outcome {
	t.Helper()
	cmd := swarmCommand(t, home, append([]string{"generate"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "SWARM_JOIN=")
	return finish(t, cmd)
}

func TestGenerateWritesFilesWithTheInvitationApart(t *testing.T) {
	t.Parallel()
	for target, secret := range map[string]string{
		"slurm": "invitation", "compose": "invitation", "skypilot": "invitation", "kubernetes": "secret.yaml",
	} {
		home, dir := t.TempDir(), t.TempDir()
		args := []string{target, "--workers", "2", "--url", anInvitation, "--gpu-type", "A100"}
		if target == "kubernetes" {
			args = append(args, "--image", "registry.example.com/swarm:1")
		}
		o := generate(t, home, dir, append(args, "--", "--model", "gpt2", "--yes")...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stdout, "Start with: ")
		require.NotContains(t, o.stdout, "c2VjcmV0")
		out := filepath.Join(dir, "swarm-"+target)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, entry := range entries {
			if entry.IsDir() {
				continue
			}
			text, err := os.ReadFile(filepath.Join(out, entry.Name()))
			require.NoError(t, err)
			info, err := entry.Info()
			require.NoError(t, err)
			if entry.Name() == secret {
				require.Contains(t, string(text), anInvitation)
				require.Equal(t, os.FileMode(0o600), info.Mode())
				continue
			}
			require.NotContains(t, string(text), "c2VjcmV0", entry.Name())
		}
		// Existing files are kept without --force.
		o = generate(t, home, dir, args...)
		require.Equal(t, fail.ExitUsage, o.code)
		require.Contains(t, o.stderr, "already exists\nTry: --force to replace it, or --out with another folder\n")
		require.Equal(t, 0, generate(t, home, dir, append(args, "--force")...).code)
	}
}

// generate uses the invitation that swarm up issued in this home. It writes a secret anew if others could read it.
func TestGenerateTakesTheInvitationOfItsHome(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	g := &globals{home: layout.Home(home)}
	require.NoError(t, os.Mkdir(g.home.Workers(), 0o700))
	require.NoError(t, os.WriteFile(workers.InvitationPath(g.home), []byte(anInvitation+"\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "swarm-slurm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "swarm-slurm", "invitation"), nil, 0o644))
	o := generate(t, home, dir, "slurm", "--workers", "1", "--force")
	require.Equal(t, 0, o.code, o.stderr)
	info, err := os.Stat(filepath.Join(dir, "swarm-slurm", "invitation"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestGeneratePrintsTheJobAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := generate(t, t.TempDir(), dir, "slurm", "--workers", "3", "--url", anInvitation, "--out", "-")
	require.Equal(t, 0, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, "#!/bin/bash\n"))
	require.NotContains(t, o.stdout, "c2VjcmV0")
	require.Contains(t, o.stderr, "invitation")
	require.NoDirExists(t, filepath.Join(dir, "swarm-slurm"))
}

// An invitation to this host alone is only a warning, because its port may be forwarded.
func TestGenerateWarnsOfLoopback(t *testing.T) {
	t.Parallel()
	for target, who := range map[string]string{
		"slurm": "workers on other hosts can't reach it", "compose": "containers and workers on other hosts can't reach it",
	} {
		local := strings.Replace(anInvitation, "203.0.113.7", "127.0.0.1", 1)
		o := generate(t, t.TempDir(), t.TempDir(), target, "--workers", "2", "--url", local)
		require.Equal(t, fail.ExitDone, o.code, o.stderr)
		require.Equal(t, "Warning: the invitation's address is tls://127.0.0.1:4222: "+who+
			". Try: swarm up --listen :4222 --advertise HOST on the coordinator, and its new invitation\n", o.stderr)
		o = generate(t, t.TempDir(), t.TempDir(), target, "--workers", "2", "--url", anInvitation)
		require.Equal(t, fail.ExitDone, o.code, o.stderr)
		require.Empty(t, o.stderr)
	}
}

func TestGenerateRefusesInOneLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"pbs --workers 2", "Error: unknown target \"pbs\"\nTry: slurm, kubernetes, skypilot or compose\n"},
		{"slurm --workers 2", "\nTry: swarm up --listen :"},
		{"slurm --url " + anInvitation, "Error: bad workers \"0\": allowed: 1 to 1024\n"},
		{"slurm --workers 2 --url tls://h:1", "has no token"},
		{"slurm --workers 2 --url http://h:1#x", "is not an invitation"},
		{"slurm --workers 2 --url " + anInvitation + " --memory little", "bad memory"},
		{"slurm --workers 2 --url " + anInvitation + " more", "unknown argument \"more\""},
		{"slurm --workers 2 --url " + anInvitation + " -- --no-such-flag", "Error: swarm join: unknown flag: --no-such-flag\n"},
		{"slurm --workers 2 --url " + anInvitation + " -- --name x", "--name after -- conflicts with the generated files"},
		{"slurm --workers 2 --url " + anInvitation + " -- tls://h:1#x", "swarm join takes no argument"},
		{"kubernetes --workers 2 --url " + anInvitation, "--image is missing"},
		{"kubernetes --workers 2 --image i --name A_b --url " + anInvitation, "RFC 1123"},
		{"compose --workers 2 -- --shared /nfs --experiment e", "bad url"},
	} {
		o := generate(t, t.TempDir(), t.TempDir(), strings.Fields(c.args)...)
		require.Equal(t, fail.ExitUsage, o.code, "%s: %s", c.args, o.stderr)
		require.Contains(t, o.stderr, c.want)
		require.LessOrEqual(t, strings.Count(o.stderr, "\n"), 2, o.stderr)
		require.NotContains(t, o.stderr, "c2VjcmV0")
	}
}

// swarm join accepts every name that jobs accepts, with the highest number appended, unchanged.
func TestGeneratedNamesAreWorkersNames(t *testing.T) {
	t.Parallel()
	longest := targets.Spec{Name: strings.Repeat("a", targets.MaxNameBytes)}.Worker(targets.MaxWorkers - 1)
	require.Equal(t, longest, workers.Name(longest))
}
