package netlab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// soon bounds every wait. No test measures it.
const soon = 2 * time.Minute

// echo starts a TCP server on a host that sends back the bytes it receives.
func echo(t *testing.T, h *Host) string {
	t.Helper()
	listener, err := h.Listen("tcp", net.JoinHostPort(h.Address.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, h *Host, address string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	conn, err := h.Dial(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// there sends bytes, reads them back and returns how long that took.
func there(t *testing.T, conn net.Conn, size int) time.Duration {
	t.Helper()
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, size))
		sent <- err
	}()
	if _, err := io.ReadFull(conn, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// The conditions affect real TCP over the lab. A round trip takes both delays, and a transfer takes its size divided by
// the rate. Both effects end with the conditions.
func TestTCPFeelsTheConditions(t *testing.T) {
	lab := New(t, 1, "a", "b", "c")
	link := lab.Link("a", "b")
	conn := dial(t, lab.Host("b"), echo(t, lab.Host("a")))
	quick := there(t, conn, 1)
	if quick > time.Second {
		t.Skipf("the machine is too busy: a bare round trip took %s", quick)
	}

	const delay = 150 * time.Millisecond
	link.Set(Conditions{Delay: delay})
	slow := there(t, conn, 1)
	if slow < 2*delay || slow > 2*delay+delay/2+quick {
		t.Errorf("a round trip took %s with %s each way, %s without", slow, delay, quick)
	}

	const size, rate = 400 << 10, 1 << 20
	link.Set(Conditions{RateBytes: rate})
	ideal := time.Duration(float64(size) / rate * float64(time.Second))
	if took := there(t, conn, size); took < ideal || took > 2*ideal {
		t.Errorf("%d bytes at %d a second took %s, not about %s", size, rate, took, ideal)
	}

	link.Set(Conditions{})
	if again := there(t, conn, 1); again > delay {
		t.Errorf("a round trip took %s after the conditions were lifted", again)
	}
	if ab, ba := link.Counts(); ab.Bytes < size || ba.Bytes < size {
		t.Errorf("counted %+v and %+v", ab, ba)
	}
}

// TCP delivers everything over a lossy link, and the lab counts the lost packets.
func TestTCPOutlivesLoss(t *testing.T) {
	lab := New(t, 2, "a", "b")
	conn := dial(t, lab.Host("b"), echo(t, lab.Host("a")))
	lab.Link("a", "b").Set(Conditions{Loss: 0.02})
	there(t, conn, 1<<20)
	if ab, ba := lab.Link("a", "b").Counts(); ab.Lost+ba.Lost == 0 {
		t.Errorf("nothing was lost: %+v, %+v", ab, ba)
	}
}

// Each direction can be cut separately. Data sent during the cut arrives after it ends. Other links are unaffected.
func TestCutsHaveADirection(t *testing.T) {
	lab := New(t, 3, "a", "b", "c")
	link := lab.Link("a", "b")
	address := echo(t, lab.Host("a"))
	conn, other := dial(t, lab.Host("b"), address), dial(t, lab.Host("c"), address)
	for name, cut := range map[string]Conditions{"a to b": {CutAB: true}, "b to a": {CutBA: true}, "both": {CutAB: true, CutBA: true}} {
		there(t, conn, 1)
		link.Set(cut)
		abBefore, baBefore := link.Counts()
		if _, err := conn.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		silent(t, name, conn)
		there(t, other, 1)
		ab, ba := link.Counts()
		if passed := ab.Packets > abBefore.Packets; passed == cut.CutAB && !cut.CutBA {
			t.Errorf("cut %s: from a to b: %+v then %+v", name, abBefore, ab)
		}
		if passed := ba.Packets > baBefore.Packets; passed == cut.CutBA {
			t.Errorf("cut %s: from b to a: %+v then %+v", name, baBefore, ba)
		}
		link.Set(Conditions{})
		if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("after healing %s: %v", name, err)
		}
	}
}

// silent checks that no data arrives for a while.
func silent(t *testing.T, name string, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("cut %s: read: %v", name, err)
	}
}

// Processes on a host use only the host's network. A power failure ends all of them, grandchildren included, and no
// process of another host.
func TestKillTakesTheHostsProcesses(t *testing.T) {
	lab := New(t, 4, "a", "b")
	var out strings.Builder
	doomed := exec.Command("sh", "-c", "cat /proc/net/fib_trie; sleep 1000 & sleep 1000")
	doomed.Stdout = &out
	doomed.WaitDelay = soon
	spared := exec.Command("sleep", "1000")
	for host, cmd := range map[string]*exec.Cmd{"a": doomed, "b": spared} {
		if err := lab.Host(host).Start(cmd); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		pids, err := lab.Host("a").Processes()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v %v", pids, err)
		}
		if len(pids) == 3 {
			break
		}
	}
	if err := lab.Host("a").Kill(); err != nil {
		t.Fatal(err)
	}
	if err := doomed.Wait(); err == nil {
		t.Error("a killed process ended well")
	}
	if pids, err := lab.Host("a").Processes(); err != nil || len(pids) != 0 {
		t.Errorf("left on a: %v %v", pids, err)
	}
	if pids, err := lab.Host("b").Processes(); err != nil || len(pids) != 1 {
		t.Errorf("on b: %v %v", pids, err)
	}
	if text := out.String(); !strings.Contains(text, lab.Host("a").Address.String()+"\n") || strings.Contains(text, lab.Host("b").Address.String()+"\n") {
		t.Errorf("host a's addresses: %s", text)
	}
	if err := lab.Host("b").Kill(); err != nil {
		t.Fatal(err)
	}
	_ = spared.Wait()
}
