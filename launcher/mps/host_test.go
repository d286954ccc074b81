package mps

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/mps/fakemps"
)

var second = GPU{Index: 3, UUID: "GPU-00000000-d6a4-be7f-0000-000000000003", Name: "NVIDIA H100", Clients: 1, MemoryFree: 79e9}

func openHost(t *testing.T, w world, o Options) *Host {
	t.Helper()
	h, err := open(t.Context(), o, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// nextFault waits for the next fault.
func nextFault(t *testing.T, h *Host) Fault {
	t.Helper()
	select {
	case f := <-h.Faults():
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no fault was announced")
		return Fault{}
	}
}

func isOver(f Fault) bool {
	select {
	case <-f.Recovered:
		return true
	default:
		return false
	}
}

func TestEachGPUHasADaemonOfItsOwn(t *testing.T) {
	w := newWorld(t, "")
	o := w.options(card, second)
	o.Place = []int{0, 1, 0, -1}
	h := openHost(t, w, o)
	env := h.ClientEnv(0, 6500<<20)
	if !slices.Contains(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6500M") || strings.Contains(strings.Join(env, " "), "THREAD") {
		t.Errorf("node 0: %v", env)
	}
	if again := h.ClientEnv(2, 6500<<20); !slices.Equal(again, env) {
		t.Errorf("node 2 shares node 0's GPU: %v", again)
	}
	if other := h.ClientEnv(1, 0); len(other) != 2 || other[0] == env[0] {
		t.Errorf("node 1 has a GPU alone and no budget: %v", other)
	}
	for _, index := range []int{-1, 3, 4} {
		if env := h.ClientEnv(index, 1<<30); env != nil {
			t.Errorf("node %d is on no GPU: %v", index, env)
		}
	}
	client := w.client(t, h.ClientEnv(1, 0))
	if err := h.Verify(t.Context(), 1, client.Process.Pid); err != nil {
		t.Error(err)
	}
	// A process on the wrong daemon, or on none, is not a client.
	var finding *Finding
	if err := h.Verify(t.Context(), 0, client.Process.Pid); !errors.As(err, &finding) || finding.Kind != NotAClient || finding.GPU != card.Index || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := h.Verify(t.Context(), 3, client.Process.Pid); err != nil {
		t.Errorf("a node on no GPU: %v", err)
	}
	die(client)
}

func TestCanaryProvesOrRefuses(t *testing.T) {
	for misbehaviour, want := range map[string]struct {
		kind Kind
		text string
	}{
		"":         {},
		"deaf":     {NotAClient, "without becoming an MPS client"},
		"generous": {LimitIgnored, "a client with a limit of 2147483648 bytes got another 2214592512 bytes"},
		"unheard":  {CanaryFailed, "the driver reports 79982223216 free bytes to a client with a limit of 2147483648, but refuses 2214592512"},
		"short":    {CardFull, "too little memory is free to distinguish a limit from a full GPU: 1000000 bytes"},
	} {
		t.Run("canary "+misbehaviour, func(t *testing.T) {
			w := newWorld(t, misbehaviour)
			o := w.options(card)
			o.Python = w.program(fakePython)
			h, err := open(t.Context(), o, quick)
			if want.kind == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := h.Close(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			var finding *Finding
			if !errors.As(err, &finding) || finding.Kind != want.kind || !strings.Contains(finding.Message, want.text) || finding.PID == 0 {
				t.Errorf("%v", err)
			}
			if left := w.strays(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("a card that is full before", func(t *testing.T) {
		w := newWorld(t, "")
		full := card
		full.MemoryFree = 3<<30 - 1
		o := w.options(full)
		o.Python = filepath.Join(w.bin, "absent") // the canary is never started
		_, err := open(t.Context(), o, quick)
		want := "MPS on GPU 0: too little memory is free to distinguish a limit from a full GPU: 3221225471 bytes, but the test takes 3221225472 (card_full). Try: --share lease"
		if err == nil || err.Error() != want || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v\nwant %s", err, want)
		}
	})
	t.Run("no such Python", func(t *testing.T) {
		w := newWorld(t, "")
		o := w.options(card)
		o.Python = filepath.Join(w.bin, "absent")
		if _, err := open(t.Context(), o, quick); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

// Killing a client within a kernel ends the server. After terminate_client, no other client is affected.
func TestBeforeKillSavesTheOthers(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(map[bool]string{true: "asked", false: "not asked"}[asked], func(t *testing.T) {
			w := newWorld(t, "fragile")
			o := w.options(card)
			o.Place = []int{0, 0}
			h := openHost(t, w, o)
			victim, other := w.client(t, h.ClientEnv(0, 1<<30)), w.client(t, h.ClientEnv(1, 1<<30))
			if asked {
				h.BeforeKill([]int{os.Getpid(), victim.Process.Pid}) // ignores a process that is not a client
			}
			die(victim)
			if asked {
				eventually(t, "the victim is gone", func() bool { return h.Verify(t.Context(), 0, victim.Process.Pid) != nil })
				if err := h.Verify(t.Context(), 1, other.Process.Pid); err != nil {
					t.Error(err)
				}
				if len(h.Faults()) > 0 {
					t.Errorf("a fault: %+v", <-h.Faults())
				}
				h.BeforeKill([]int{other.Process.Pid})
				die(other)
				return
			}
			f := nextFault(t, h)
			if f.GPU != card.Index || f.Fatal || f.Message == "" {
				t.Errorf("%+v", f)
			}
			if env := h.ClientEnv(0, 0); connects(t, env) {
				t.Error("a faulted server takes a new client")
			}
			if isOver(f) {
				t.Error("over while a client still is there")
			}
			die(other)
			eventually(t, "the fault is over once its clients are gone", func() bool { return isOver(f) })
			w.client(t, h.ClientEnv(0, 1<<30))
		})
	}
}

// connects reports whether a process can become a client.
func connects(t *testing.T, env []string) bool {
	t.Helper()
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	conn, _, err := fakemps.Connect(os.Getpid(), "")
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// A fault can be over before the monitor asks, if all its clients die at once. The server's log reports it.
func TestFaultThatIsOverAtOnceIsNoticed(t *testing.T) {
	w := newWorld(t, "")
	h := openHost(t, w, w.options(card))
	command := exec.Command(w.program(Program))
	command.Env = h.daemons[0].control.env
	command.Stdin = strings.NewReader("fault\n")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	f := nextFault(t, h)
	if f.Message != "the MPS server had a fatal GPU error of one of its clients" {
		t.Errorf("%+v", f)
	}
	eventually(t, "it is over", func() bool { return isOver(f) })
}

func TestALostDaemonIsReplaced(t *testing.T) {
	w := newWorld(t, "")
	o := w.options(card)
	o.Place = []int{0}
	h := openHost(t, w, o)
	die(w.client(t, h.ClientEnv(0, 0)))
	pid, err := h.daemons[0].readPID()
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	f := nextFault(t, h)
	if f.Fatal || !strings.HasPrefix(f.Message, "the MPS control daemon does not answer: ") {
		t.Errorf("%+v", f)
	}
	eventually(t, "a new daemon serves the same directory", func() bool { return isOver(f) })
	w.client(t, h.ClientEnv(0, 0))
}

func TestAFaultWithoutEndIsFatal(t *testing.T) {
	w := newWorld(t, "doomed")
	o := w.options(card)
	o.Place = []int{0}
	h := openHost(t, w, o)
	if f := nextFault(t, h); f.Fatal {
		t.Errorf("%+v", f)
	}
	if f := nextFault(t, h); !f.Fatal || !strings.HasSuffix(f.Message, ". Try: --share lease") {
		t.Errorf("%+v", f)
	}
}

// controlLines returns the lines of a daemon's control.log.
func controlLines(t *testing.T, d *daemon) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.logs, controlLog))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.Trim(string(text), "\x00\n"), "\n")
}

// A daemon logs every command. A healthy one gets few.
func TestAHealthyDaemonIsLeftAlone(t *testing.T) {
	w := newWorld(t, "")
	o := w.options(card)
	o.Place = []int{0}
	h := openHost(t, w, o)
	client := w.client(t, h.ClientEnv(0, 0))
	before := len(controlLines(t, h.daemons[0]))
	time.Sleep(20 * quick.look)
	// One poll may have begun before the client came, and another one follows. Each has three commands.
	if after := controlLines(t, h.daemons[0]); len(after)-before > 2*2*3 {
		t.Errorf("%d lines in %s: %q", len(after)-before, 20*quick.look, after[before:])
	}
	die(client)
}

// control.log is bounded, also if the daemon does not append to it.
func TestTheControlLogIsBounded(t *testing.T) {
	for _, how := range []string{"", "offset"} {
		t.Run("daemon "+how, func(t *testing.T) {
			w := newWorld(t, how)
			logs := filepath.Join(w.dir, "mps", "gpu0")
			if err := os.MkdirAll(logs, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(logs, controlLog)
			if err := os.WriteFile(path, []byte(strings.Repeat("[old] a line\n", controlLogBytes/12)), 0o600); err != nil {
				t.Fatal(err)
			}
			o := w.options(card)
			o.Place = []int{0}
			h := openHost(t, w, o)
			client := w.client(t, h.ClientEnv(0, 0))
			eventually(t, "the log is emptied", func() bool { return !strings.Contains(strings.Join(controlLines(t, h.daemons[0]), "\n"), "[old]") })
			if err := h.Verify(t.Context(), 0, client.Process.Pid); err != nil {
				t.Error(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if took := info.Sys().(*syscall.Stat_t).Blocks * 512; took > 1<<20 || (info.Size() > controlLogBytes) != (how == "offset") {
				t.Errorf("%d bytes of size %d", took, info.Size())
			}
			h.daemons[0].trimLog()
			eventually(t, "what is new stays", func() bool { return strings.HasSuffix(lastLine(path), fmt.Sprint("Answer:", client.Process.Pid)) })
			die(client)
		})
	}
}
