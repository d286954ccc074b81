package mps

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/mps/fakemps"
)

// The test binary plays these programs, by the name that it is started under.
const (
	fakePython = "fake-python"
	fakeClient = "fake-client" // a CUDA process that is within a kernel until its stdin closes
	fakeParent = "fake-coordinator"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case Program:
		fakemps.Main()
	case fakePython: // canary.py SMALL LARGE
		os.Exit(fakemps.Canary(os.Args[2], os.Args[3]))
	case fakeClient:
		os.Exit(playClient())
	case fakeParent:
		playCoordinator(os.Args[1], os.Args[2])
	}
	os.Exit(hermetic.Main(m))
}

func playClient() int {
	conn, answers, err := fakemps.Connect(os.Getpid(), os.Getenv(memoryVariable))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprintln(conn, "busy")
	line, err := answers.ReadString('\n')
	fmt.Println("up", strings.TrimSpace(line), err)
	io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(conn, "idle")
	answers.ReadString('\n')
	return 0
}

var quick = pace{
	ask: 2 * time.Second, start: 5 * time.Second, quit: time.Second, kill: 2 * time.Second,
	canary: 5 * time.Second, listed: 300 * time.Millisecond,
	look: 20 * time.Millisecond, rest: time.Minute, patience: 300 * time.Millisecond, regroup: 100 * time.Millisecond,
}

// world is a folder with the programs. Its processes must be gone at the end of the test.
type world struct {
	dir string // of the run
	bin string
}

func newWorld(t *testing.T, misbehaviour string) world {
	t.Helper()
	w := world{dir: t.TempDir(), bin: t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Program, fakePython, fakeClient, fakeParent} {
		if err := os.Symlink(exe, filepath.Join(w.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FAKE_MPS", misbehaviour)
	t.Setenv(pipeVariable, "")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	t.Cleanup(func() {
		// A killed process may take a moment to be reaped.
		eventually(t, "no process of this test is left", func() bool { return len(w.strays()) == 0 })
	})
	return w
}

func (w world) program(name string) string { return filepath.Join(w.bin, name) }

func (w world) options(gpus ...GPU) Options {
	return Options{
		Need: Need{GPUs: gpus, GPUsPerNode: 1, Program: w.program(Program)}, Dir: w.dir, Logger: slog.New(slog.DiscardHandler),
	}
}

// strays returns the processes with a log directory in this world: daemons, servers and clients.
func (w world) strays() []string {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	var found []string
	for _, path := range entries {
		env, err := os.ReadFile(path) // empty for a zombie
		if err == nil && strings.Contains(string(env), logVariable+"="+w.dir) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(filepath.Dir(path)), name))
		}
	}
	return found
}

// client starts a busy client with the host's environment for clients.
func (w world) client(t *testing.T, env []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(w.program(fakeClient))
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up ok <nil>\n" {
		t.Fatalf("client: %q, %v", line, err)
	}
	return cmd
}

func die(cmd *exec.Cmd) {
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Errorf("not within 10 s: %s", what)
			return
		}
	}
}
