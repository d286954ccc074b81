package mps

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

func TestDaemonStartsInPrivateAndStops(t *testing.T) {
	w := newWorld(t, "")
	logs := filepath.Join(w.dir, "mps", "gpu0")
	d, err := start(t.Context(), w.program(Program), logs, card.UUID, quick)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.pipe)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("pipe directory: %v, %v", info.Mode(), err)
	}
	if servers, err := d.control.servers(t.Context()); err != nil || len(servers) != 0 {
		t.Errorf("before the first client: %+v, %v", servers, err)
	}
	client := w.client(t, d.clientEnv(0))
	servers, err := d.control.servers(t.Context())
	if err != nil || len(servers) != 1 || servers[0].status != statusActive || len(servers[0].clients) != 1 || servers[0].clients[0] != client.Process.Pid {
		t.Errorf("with client %d: %+v, %v", client.Process.Pid, servers, err)
	}
	server, err := supervise.Identify(servers[0].pid)
	if err != nil {
		t.Fatal(err)
	}
	daemon := d.id
	if !daemon.Alive() || !server.Alive() {
		t.Error("daemon and server should run")
	}
	die(client)
	if err := d.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if daemon.Alive() || server.Alive() {
		t.Error("daemon or server still runs")
	}
	for _, path := range []string{d.pipe, d.path} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", path)
		}
	}
	if log, err := os.ReadFile(filepath.Join(logs, "server.log")); err != nil || !strings.Contains(string(log), "connected") {
		t.Errorf("the logs should stay: %q, %v", log, err)
	}
}

// A daemon or server that ignores quit or does not answer is killed by its recorded identity.
func TestDaemonsThatDoNotQuitAreKilled(t *testing.T) {
	for _, misbehaviour := range []string{"stubborn", "hangs"} {
		t.Run(misbehaviour, func(t *testing.T) {
			w := newWorld(t, misbehaviour)
			d, err := start(t.Context(), w.program(Program), filepath.Join(w.dir, "mps"), card.UUID, quick)
			if err != nil {
				t.Fatal(err)
			}
			die(w.client(t, d.clientEnv(0)))
			if misbehaviour != "stubborn" {
				syscall.Kill(d.id.PID, syscall.SIGSTOP) // hangs: the daemon accepts no connection and sends no answer
			}
			began := time.Now()
			if err := d.stop(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > quick.ask+quick.quit+quick.kill+2*time.Second {
				t.Errorf("took %s", took)
			}
			if left := w.strays(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestDaemonsThatDoNotStartLeaveNothing(t *testing.T) {
	for misbehaviour, want := range map[string]string{
		"broken": "MPS is not available: nvidia-cuda-mps-control -d failed: Failed to start: MPS is only supported on 64-bit Linux platforms. Try: --share lease",
		"mute":   "MPS is not available: the control daemon did not answer within 1s: ",
	} {
		t.Run(misbehaviour, func(t *testing.T) {
			w := newWorld(t, misbehaviour)
			places := t.TempDir()
			t.Setenv("TMPDIR", places)
			hasty := quick
			hasty.ask, hasty.start = 500*time.Millisecond, time.Second
			_, err := start(t.Context(), w.program(Program), filepath.Join(w.dir, "mps"), card.UUID, hasty)
			if !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nwant %s", err, want)
			}
			if left, err := os.ReadDir(places); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "mps", recordName)); !errors.Is(err, fs.ErrNotExist) {
				t.Error("the record is left")
			}
		})
	}
}

// playCoordinator starts a daemon, prints its identity, and waits to be killed.
func playCoordinator(program, dir string) {
	os.Unsetenv(pipeVariable)
	d, err := start(context.Background(), program, dir, card.UUID, quick)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(d.id.PID, d.pipe)
	io.Copy(io.Discard, os.Stdin)
	select {}
}

func TestSweepEndsTheDaemonsOfDeadCoordinators(t *testing.T) {
	w := newWorld(t, "")
	parent := exec.Command(w.program(fakeParent), w.program(Program), filepath.Join(w.dir, "run-1", "mps", "gpu0"))
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var pid int
	var pipe string
	if _, scanErr := fmt.Sscan(line, &pid, &pipe); err != nil || scanErr != nil {
		t.Fatalf("%q, %v", line, err)
	}
	id, err := supervise.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := Sweep(t.Context(), w.dir); err != nil || len(ended) != 0 || !id.Alive() {
		t.Fatalf("a living coordinator's daemon was touched: %v, %v", ended, err)
	}
	die(parent)
	if ended, err := Sweep(t.Context(), w.dir); err != nil || len(ended) != 1 || ended[0] != pid || id.Alive() {
		t.Errorf("ended %v (want %d), %v; alive %t", ended, pid, err, id.Alive())
	}
	if _, err := os.Stat(pipe); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left", pipe)
	}
	if ended, err := Sweep(t.Context(), w.dir); err != nil || len(ended) != 0 {
		t.Errorf("a second sweep found %v, %v", ended, err)
	}
}

// The coordinator can die between the daemon's start and the daemon's first answer.
func TestSweepFindsADaemonThatWasOnlyStarting(t *testing.T) {
	w := newWorld(t, "")
	d, err := start(t.Context(), w.program(Program), filepath.Join(w.dir, "mps"), card.UUID, quick)
	if err != nil {
		t.Fatal(err)
	}
	daemon := d.id
	rewrite(t, d.path, func(r *record) { r.Daemon, r.Parent = supervise.Identity{}, supervise.Identity{} })
	if ended, err := Sweep(t.Context(), w.dir); err != nil || len(ended) != 1 || daemon.Alive() {
		t.Errorf("ended %v, %v; alive %t", ended, err, daemon.Alive())
	}
}

// Sweep must not kill a reused pid, and must not remove a folder that isn't one of our pipe directories.
func TestSweepSparesStrangers(t *testing.T) {
	w := newWorld(t, "")
	stranger := exec.Command("/bin/sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer die(stranger)
	id, err := supervise.Identify(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(t.TempDir(), "precious")
	ours := filepath.Join(t.TempDir(), "swarm-mps-1")
	for _, dir := range []string{precious, ours} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(ours, longestName), fmt.Appendln(nil, id.PID), 0o600)
	other := id
	other.Start++
	for name, r := range map[string]record{
		"another start time":      {Daemon: other, Pipe: ours},
		"another program's pid":   {Pipe: ours, Program: w.program(Program)},
		"a folder that isn't one": {Daemon: id, Pipe: precious},
		"a relative folder":       {Daemon: id, Pipe: "swarm-mps-1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), recordName)
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if ended, err := Sweep(t.Context(), filepath.Dir(path)); err != nil || len(ended) != 0 || !id.Alive() {
				t.Errorf("ended %v, %v; stranger alive %t", ended, err, id.Alive())
			}
			if _, err := os.Stat(path); ownPipe(r.Pipe) != errors.Is(err, fs.ErrNotExist) { // a foreign record stays
				t.Errorf("the record: %v", err)
			}
			if _, err := os.Stat(precious); err != nil {
				t.Error(err)
			}
		})
	}
}

func rewrite(t *testing.T, path string, change func(*record)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	if data, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
