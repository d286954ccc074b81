package attempt

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

const (
	oom = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; " +
		"23.69 GiB total capacity; 20.00 GiB already allocated; 1.00 GiB free; 21.00 GiB reserved in total by PyTorch)\n"
	assert = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nAssertionError: labels\n"
	device = "RuntimeError: CUDA error: device-side assert triggered\n"
)

func steps(n int) string { return strings.Repeat("step\n", n) }

func TestTheLastFailureDecides(t *testing.T) {
	failed := Outcome{ExitCode: 1}
	killed := Outcome{ExitCode: -1, Signal: syscall.SIGKILL}
	for _, c := range []struct {
		name, text string
		out        Outcome
		kills      int64
		kind       shortage.Kind // empty: no shortage
		fault      bool
	}{
		{"success", oom, Outcome{}, 0, "", false},
		{"stopped", oom, Outcome{ExitCode: 1, Stopped: true}, 0, "", false},
		{"a shortage at the end", steps(100) + oom, failed, 0, shortage.Torch, false},
		{"with farewells behind", oom + steps(300), failed, 0, shortage.Torch, false},
		{"survived, and no word of the end", oom + steps(5000), failed, 0, "", false},
		{"survived, and told to end by somebody", oom + steps(300), Outcome{ExitCode: -1, Signal: syscall.SIGTERM}, 0, "", false},
		{"survived, then something else", oom + steps(8900) + assert, failed, 0, "", true},
		{"something else, dealt with, then a shortage", assert + steps(8900) + oom, failed, 0, shortage.Torch, false},
		{"an assertion on the GPU alone", steps(10) + device, failed, 0, "", true},
		{"an assertion on the GPU after a shortage", oom + steps(5000) + device, failed, 0, "", true},
		{"nothing said", steps(10), failed, 0, "", false},
		{"killed by the kernel", steps(10), killed, 1, shortage.HostKilled, false},
		{"killed by the kernel, long after another shortage", oom + steps(5000), killed, 1, shortage.HostKilled, false},
		{"killed by somebody else", steps(10), killed, 0, "", false},
		{"where the kernel does not tell", steps(10), killed, -1, "", false},
		{"a child was killed", steps(10), Outcome{ExitCode: 137}, 1, shortage.HostKilled, false},
		{"a worker was killed", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n", failed, 1, shortage.HostKilled, false},
		{"a worker was killed, not by the kernel", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n", failed, 0, "", true},
		{"somebody else's process was killed meanwhile", assert, failed, 1, "", true},
	} {
		scanner := shortage.NewScanner()
		_, _ = scanner.Write([]byte(c.text))
		scanner.Close()
		out := c.out
		out.judge(scanner, c.kills)
		got := shortage.Kind("")
		if out.Shortage != nil {
			got = out.Shortage.Kind
		}
		if got != c.kind || (out.Fault != nil) != c.fault || out.OOMKilled != (c.kind == shortage.HostKilled) {
			t.Errorf("%s: %+v, shortage %+v, fault %+v", c.name, out, out.Shortage, out.Fault)
		}
	}
}
