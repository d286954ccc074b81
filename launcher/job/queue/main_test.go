package queue

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// roleVariable makes the test binary play a process that uses a queue. The queue's folder is its argument.
const roleVariable = "SWARM_QUEUE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(hermetic.Main(m))
	case "holder":
		os.Exit(holder(os.Args[1]))
	case "worker":
		os.Exit(worker(os.Args[1]))
	}
	os.Exit(2)
}

// card is the only GPU of the test processes. The driver reports no processes, and the free memory is what other
// processes leave.
func card() []Device { return []Device{{GPU: "GPU-0", Name: "Test", Total: 10, Free: 10}} }

// holder takes 6 of 10 bytes, reports it, and holds them until its stdin ends. Its argument is a pid to record as a
// process of its attempt.
func holder(dir string) int {
	q, err := Open(dir)
	if err != nil {
		return fail(err)
	}
	t, err := q.Enter("holder", Need{Bytes: 6})
	if err != nil {
		return fail(err)
	}
	_, verdict, err := t.Try(card())
	if err != nil {
		return fail(err)
	}
	if len(os.Args) > 2 {
		pid, _ := strconv.Atoi(os.Args[2])
		if err := t.Adjust(6, []int{pid}); err != nil {
			return fail(err)
		}
	}
	fmt.Println(verdict.Granted)
	io.Copy(io.Discard, os.Stdin)
	return 0 // without Leave
}

// worker enters, waits, holds, releases, tries again and leaves, up to 12 times or until it is killed. While it has a
// device, it has a file in the "in use" folder that is named after its bytes and pid.
func worker(dir string) int {
	q, err := Open(dir)
	if err != nil {
		return fail(err)
	}
	for i := range 12 {
		if err := work(q, dir, int64(i%5)+2); err != nil {
			return fail(err)
		}
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// process is a running test role.
type process struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func start(t *testing.T, role string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	p := &process{Cmd: cmd}
	p.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return p
}

// line returns the next line of the process's output.
func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(text)
}

// eventually polls f for up to 30 s.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func open(t testing.TB, dir string) *Queue {
	t.Helper()
	q, err := Open(dir)
	require.NoError(t, err)
	return q
}

func enter(t testing.TB, q *Queue, name string, need Need) *Ticket {
	t.Helper()
	ticket, err := q.Enter(name, need)
	require.NoError(t, err)
	t.Cleanup(func() { ticket.Leave() })
	return ticket
}

// granted tries once and reports whether the ticket got a device.
func granted(t *testing.T, ticket *Ticket, devices []Device) bool {
	t.Helper()
	_, verdict, err := ticket.Try(devices)
	require.NoError(t, err)
	return verdict.Granted
}
