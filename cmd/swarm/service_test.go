package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/systemd"
)

// service runs swarm service for a user without a running systemd.
func service(t *testing.T, config, home string, args ...string) outcome {
	t.Helper()
	if _, err := exec.LookPath("systemctl"); err != nil {
		t.Skip("no systemd")
	}
	cmd := swarmCommand(t, home, append([]string{"service", "--user"}, args...)...)
	cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+config, "XDG_RUNTIME_DIR="+config, "HF_TOKEN=hidden", "CUDA_VISIBLE_DEVICES=")
	return finish(t, cmd)
}

// execStart returns the ExecStart line of a unit.
func execStart(t *testing.T, text string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ExecStart=") {
			return line
		}
	}
	t.Fatalf("no ExecStart= in:\n%s", text)
	return ""
}

// A unit is checked and written with absolute paths, shown, replaced and removed. Without a running systemd, the
// commands to type are printed.
func TestServiceOfAUser(t *testing.T) {
	t.Parallel()
	config, home := t.TempDir(), filepath.Join(t.TempDir(), "a home 100%")
	path := filepath.Join(config, "systemd", "user", "swarm-n.service")
	up := append([]string{"--", "--name", "e", "--rounds", "3"}, tinyRun()...)
	o := service(t, config, home, append([]string{"install", "n"}, up...)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "Wrote "+path+".\n")
	require.Contains(t, o.stdout, "HF_TOKEN")
	require.Contains(t, o.stdout, "  systemctl --user daemon-reload\n  systemctl --user enable swarm-n.service\n"+
		"  systemctl --user start swarm-n.service\n")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hidden")
	require.Contains(t, string(text), `"SWARM_PYTHON=`+usablePython(t)+`"`)
	exe, err := filepath.EvalSymlinks(func() string { p, _ := exec.LookPath("swarm"); return p }())
	require.NoError(t, err)
	// launcher/systemd tests how systemd reads the line.
	want, err := systemd.Unit{Directory: "/", Exe: exe, Args: append([]string{"--home", home, "up", "--service"}, up[1:]...)}.Text()
	require.NoError(t, err)
	require.Equal(t, execStart(t, want), execStart(t, string(text)))

	o = service(t, config, home, "show", "n", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var d systemd.Service
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, systemd.Service{Name: "swarm-n.service", Scope: "user", Path: path, Unit: string(text)}, d)
	o = service(t, config, home, "show")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, "Try: one of swarm-n.service")

	o = service(t, config, home, append([]string{"install", "n"}, up...)...)
	require.Contains(t, o.stdout, "systemctl --user restart swarm-n.service\n")
	o = service(t, config, home, "remove", "n")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "systemctl --user disable --now swarm-n.service\n")
	require.NoFileExists(t, path)
	require.Equal(t, fail.ExitUsage, service(t, config, home, "remove", "n").code)
	require.NoDirExists(t, home, "installing begins no run")
}

// A service does not start a run for ever whose nodes all give up at once. A person can.
func TestAServiceLeavesARunThatCannotGoOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := []string{"up", "--service", "--node-command", "false", "--name", "vain", "--device", "cpu", "--nodes", "2", "--max-restarts", "0"}
	for range 3 {
		o := swarm(t, home, up...)
		require.Equal(t, fail.ExitFailed, o.code, o.stderr)
		require.Contains(t, o.stderr, "Error: 2 of 2 nodes given up")
	}
	o := swarm(t, home, up...)
	require.Equal(t, fail.ExitLost, o.code, "systemd does not start it again")
	require.Equal(t, "vain-1: all of its nodes gave up, and its newest 3 attempts recorded no round. The service does not try again before the next boot. "+
		"To continue it: swarm --home "+home+" resume vain-1\n", o.stderr)
	require.Equal(t, 3, status(t, home).Attempts)
	require.Equal(t, fail.ExitFailed, swarm(t, home, "resume", "vain-1").code)
	require.Equal(t, 4, status(t, home).Attempts)
}

// Arguments that swarm up would refuse at 3 in the morning are refused at once, and nothing is written.
func TestServiceRefusesBadArguments(t *testing.T) {
	t.Parallel()
	config, home := t.TempDir(), t.TempDir()
	for _, tt := range []struct {
		args []string
		text string
	}{
		{[]string{"install", "--", "--no-such-flag"}, "Error: unknown flag: --no-such-flag\n"},
		{[]string{"install", "--", "--rounds", "x"}, "Error: bad rounds"},
		{[]string{"install", "--", "--config", "nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"install", "--", "extra"}, "Error: unknown config \"extra\": allowed: "},
		{append([]string{"install", "--", "--detach"}, tinyRun()...), "Error: a service already runs in the background\n"},
		{append([]string{"install", "--", "--fresh"}, tinyRun()...), "Error: a service with --fresh would begin a new run at each start\n"},
		{[]string{"install", "a", "b", "--"}, "Error: service takes one name, not 2\n"},
		{[]string{"install", "../x", "--"}, "Error: bad service name"},
		{[]string{"install", "--system", "--"}, "Error: --system and --user at once\n"},
		{append([]string{"install", "--", "--nats", "nats://u:hidden@h:4222"}, tinyRun()...), "Error: --nats has a password, and every user can read a systemd unit\nTry: write the URLs to a file of mode 0600 and use --nats-file FILE, or use --nats-creds FILE\n"},
		{append([]string{"install", "--", "--set", "tasks.file=/nowhere"}, tinyRun()[4:]...), "tasks.file"},
	} {
		o := service(t, config, home, tt.args...)
		require.Equal(t, fail.ExitUsage, o.code, "%v: %s", tt.args, o.stderr)
		require.Contains(t, o.stderr, tt.text, tt.args)
		require.NotContains(t, o.stderr, "hidden")
		require.Empty(t, o.stdout)
	}
	require.NoDirExists(t, filepath.Join(config, "systemd"))
}

// A cluster's password stays in its file. The unit has only the file's name.
func TestServiceOnACluster(t *testing.T) {
	t.Parallel()
	config, home, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "nats")
	require.NoError(t, os.WriteFile(file, []byte("nats://u:hidden@127.0.0.1:4222\n"), 0o600))
	o := service(t, config, home, append([]string{"install", "c", "--", "--nats-file", file}, tinyRun()...)...)
	require.Equal(t, 0, o.code, o.stderr)
	text, err := os.ReadFile(filepath.Join(config, "systemd", "user", "swarm-c.service"))
	require.NoError(t, err)
	require.Contains(t, execStart(t, string(text)), file)
	require.NotContains(t, string(text), "hidden")
}

// A worker's unit has the name of its invitation's file, not the invitation.
func TestServiceOfAWorker(t *testing.T) {
	t.Parallel()
	config, home, folder := t.TempDir(), t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "invitation")
	require.NoError(t, os.WriteFile(file, []byte("tls://127.0.0.1:4222#secret\n"), 0o600))
	o := service(t, config, home, "install", "w", "--", "join", "--url-file", file, "--nodes", "1")
	require.Equal(t, 0, o.code, o.stderr)
	text, err := os.ReadFile(filepath.Join(config, "systemd", "user", "swarm-w.service"))
	require.NoError(t, err)
	require.Contains(t, execStart(t, string(text)), file)
	require.Contains(t, execStart(t, string(text)), `"join" "--service"`)
	require.NotContains(t, string(text), "#secret")
	for _, bad := range [][]string{{"tls://127.0.0.1:4222#secret"}, {"--nodes", "1"}, {"--url-file", file, "--detach"}, {"--url-file", config + "/none"}} {
		o := service(t, config, home, append([]string{"install", "w2", "--", "join"}, bad...)...)
		require.Equal(t, fail.ExitUsage, o.code, "%v: %s", bad, o.stderr)
		require.NotContains(t, o.stderr, "#")
	}
}

// Only swarm's own files are replaced or removed.
func TestServiceSparesOthersUnits(t *testing.T) {
	t.Parallel()
	config, home := t.TempDir(), t.TempDir()
	dir := filepath.Join(config, "systemd", "user")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "swarm.service")
	require.NoError(t, os.WriteFile(path, []byte("[Service]\nExecStart=/bin/true\n"), 0o644))
	for _, args := range [][]string{append([]string{"install", "--"}, tinyRun()...), {"remove"}} {
		o := service(t, config, home, args...)
		require.Equal(t, fail.ExitFailed, o.code)
		require.Equal(t, "Error: "+path+" was not written by swarm\nTry: another NAME\n", o.stderr)
		require.FileExists(t, path)
	}
}

func TestServiceWithoutSystemd(t *testing.T) {
	t.Parallel()
	cmd := swarmCommand(t, t.TempDir(), "service", "show")
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	o := finish(t, cmd)
	require.Equal(t, fail.ExitFailed, o.code)
	require.Equal(t, "Error: this machine has no systemd (containers have none)\n"+
		"Try: swarm up --detach, or swarm service install on the host\n", o.stderr)
}

// A hook's value may be a secret, but every user can read a unit and process arguments. So files of mode 0600 hold
// it.
func TestAUnitHoldsNoSecretOfAHook(t *testing.T) {
	t.Parallel()
	config, home := t.TempDir(), filepath.Join(t.TempDir(), "home")
	up := append([]string{"--", "--webhook", "https://example.org/hidden", "--name", "e", "--on-complete=echo hidden; exit 3", "--rounds", "3"}, tinyRun()...)
	o := service(t, config, home, append([]string{"install", "n", "--dry-run"}, up...)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stdout+o.stderr, "hidden")
	require.NoDirExists(t, home)
	o = service(t, config, home, append([]string{"install", "n"}, up...)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stdout+o.stderr, "hidden")
	text, err := os.ReadFile(filepath.Join(config, "systemd", "user", "swarm-n.service"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "hidden")
	folder := filepath.Join(home, "services", "swarm-n.service")
	for flag, want := range map[string]string{"webhook": "https://example.org/hidden\n", "on-complete": "echo hidden; exit 3\n"} {
		path := filepath.Join(folder, flag)
		require.Contains(t, execStart(t, string(text)), `"--`+flag+`-file" "`+path+`"`)
		given, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(given))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	o = service(t, config, home, append([]string{"install", "n", "--", "--rounds", "3"}, tinyRun()...)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NoDirExists(t, folder, "the earlier one's are gone")
	require.Equal(t, 0, service(t, config, home, "remove", "n").code)
}
