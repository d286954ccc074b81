package attempt

import (
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// BenchmarkStart measures the time that an attempt adds to the start (target 5 ms) and to the whole run of a command
// that does nothing.
func BenchmarkStart(b *testing.B) {
	var plain, ours, plainStart, oursStart time.Duration
	for b.Loop() {
		began := time.Now()
		cmd := exec.Command("/bin/true")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		plainStart += time.Since(began)
		_ = cmd.Wait()
		plain += time.Since(began)
		began = time.Now()
		p, err := Start(Spec{Path: "/bin/true", Stdout: io.Discard, Stderr: io.Discard})
		if err != nil {
			b.Fatal(err)
		}
		oursStart += time.Since(began)
		p.Wait()
		ours += time.Since(began)
	}
	b.ReportMetric((oursStart-plainStart).Seconds()*1e3/float64(b.N), "ms-start-added")
	b.ReportMetric(float64(oursStart)/float64(plainStart), "times-start")
	b.ReportMetric((ours-plain).Seconds()*1e3/float64(b.N), "ms-added")
}

// BenchmarkSample measures the thread time of one sample of 50 processes, with and without its proportional part.
// Target: 10 ms at 1 Hz.
func BenchmarkSample(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/sh", "-c", "for i in $(seq 49); do sleep 1000 & done; wait")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	id, err := supervise.Identify(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	tree := newTree(id, "benchmark")
	defer cmd.Process.Kill()
	defer func() { signalAll(tree.others(), syscall.SIGKILL) }()
	for len(tree.others()) < 49 {
		tree.look()
	}
	m := newMeter(Spec{}, tree, supervise.NewKillMeter())
	var all, exact time.Duration
	for b.Loop() {
		began := hostmem.ThreadTime()
		tree.measure()
		exact += hostmem.ThreadTime() - began
		m.exactAt = time.Now().Add(time.Hour)
		began = hostmem.ThreadTime()
		m.sample(time.Now())
		all += hostmem.ThreadTime() - began
	}
	b.ReportMetric(all.Seconds()*1e3/float64(b.N), "ms/sample")
	b.ReportMetric(exact.Seconds()*1e3/float64(b.N), "ms/proportional")
}
