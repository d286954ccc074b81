package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange/netlab"
)

const (
	netHub  = "hub" // the coordinator's host
	netPort = "4222"
)

// netPatience bounds every wait in these tests that measures nothing.
var netPatience = flag.Duration("net.patience", 4*time.Minute, "bound of every wait of the tests on several hosts")

// netSwarm is a swarm of real programs on the hosts of a lab: a coordinator on netHub, a worker on each other.
type netSwarm struct {
	t          *testing.T
	lab        *netlab.Lab
	homes      map[string]string
	commands   map[string][]string // each host's command
	running    map[string]*netProcess
	invitation string
}

func newNetSwarm(t *testing.T, seed uint64, workers ...string) *netSwarm {
	t.Helper()
	s := &netSwarm{
		t: t, lab: netlab.New(t, seed, append([]string{netHub}, workers...)...), homes: map[string]string{}, commands: map[string][]string{},
		running: map[string]*netProcess{},
	}
	for _, host := range append([]string{netHub}, workers...) {
		s.homes[host] = t.TempDir()
	}
	t.Cleanup(func() {
		if t.Failed() {
			for host, p := range s.running {
				p.explain(t, host)
			}
			s.explain()
		}
	})
	return s
}

// netProcess is a swarm command on a host.
type netProcess struct {
	cmd   *exec.Cmd
	log   *lockedBuffer
	ended chan struct{} // closed once code is known
	code  int

	mayEnd bool
}

// explain logs a process's output, and its goroutines if it is still running.
func (p *netProcess) explain(t *testing.T, host string) {
	said := len(p.log.String())
	if !p.over() && p.cmd.Process.Signal(syscall.SIGQUIT) == nil {
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
		}
	}
	text := p.log.String()
	stacks, err := keep("swarm-net-"+host+"-*.stacks", text[said:])
	t.Logf("%s said:\n%s\nits goroutines: %s (%v)", host, lastOf(text[:said], 6000), stacks, err)
}

// explain saves the rounds of all nodes from the coordinator's database, in order of time.
func (s *netSwarm) explain() {
	rows, err := tableRows(s.homes[netHub], `SELECT printf('%.2f', time) AS t, node, round, printf('%.2f', step_time) AS step, printf('%.2f', barrier_time) AS barrier,
late, trained_external, (SELECT group_concat(peer || ':' || available || '/' || rejected || CASE late WHEN 1 THEN ' late' ELSE '' END || reason, ', ') FROM peers
WHERE peers.run = rounds.run AND peers.node = rounds.node AND peers.round = rounds.round) AS peers FROM rounds WHERE run = 'e-1' ORDER BY time`)
	path, failed := keep("swarm-net-*.rounds", strings.Join(rows, "\n"))
	s.t.Logf("its rounds: %s (%v)", path, errors.Join(err, failed))
}

// start starts a host's command.
func (s *netSwarm) start(host string) *netProcess {
	s.t.Helper()
	p := &netProcess{log: &lockedBuffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(stormProgram(), append([]string{"--home", s.homes[host]}, s.commands[host]...)...)
	p.cmd.Env, p.cmd.WaitDelay = stormEnviron(s.t, s.homes[host]), 10*time.Second
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(s.t, s.lab.Host(host).Start(p.cmd))
	s.running[host] = p
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
	}()
	return p
}

// joinLine matches up's message about the invitation.
var joinLine = regexp.MustCompile(`Others join with the command in (\S+)`)

// up starts the coordinator, and returns when it prints how to join.
func (s *netSwarm) up(args ...string) {
	s.t.Helper()
	address := s.lab.Host(netHub).Address.String()
	s.commands[netHub] = append([]string{"up", "--name", "e", "--listen", address + ":" + netPort, "--advertise", address}, args...)
	p := s.start(netHub)
	s.await("an invitation", func() bool {
		if found := joinLine.FindStringSubmatch(p.log.String()); found != nil {
			text, err := os.ReadFile(found[1])
			require.NoError(s.t, err)
			s.invitation = strings.TrimSpace(string(text))
		}
		return s.invitation != ""
	})
}

// join starts a worker with the host's name.
func (s *netSwarm) join(host string, args ...string) {
	s.t.Helper()
	s.commands[host] = append([]string{"join", s.invitation, "--name", host, "--device", "cpu", "--model", tinyModel(), "--tasks-file", items()}, args...)
	s.start(host)
}

// kill simulates a power failure of a host.
func (s *netSwarm) kill(host string) {
	s.t.Helper()
	s.running[host].mayEnd = true
	require.NoError(s.t, s.lab.Host(host).Kill())
	<-s.running[host].ended
}

// stop asks a host's command to stop in order and returns its exit code.
func (s *netSwarm) stop(host string) int {
	s.t.Helper()
	p := s.running[host]
	require.NoError(s.t, p.cmd.Process.Signal(syscall.SIGTERM))
	return s.finish(host)
}

// undelivered is the message of a worker that ends before the coordinator has all its events.
const undelivered = "not all is delivered"

// retire stops a worker in order. If the worker can't deliver its last events within the time of a stop, it reports
// that they are kept. The same command is then started again and must deliver them.
func (s *netSwarm) retire(worker string, nodes ...string) {
	s.t.Helper()
	for range 5 {
		require.Equal(s.t, 128+int(syscall.SIGTERM), s.stop(worker), s.running[worker].log)
		if !strings.Contains(s.running[worker].log.String(), undelivered) {
			return
		}
		s.t.Logf("%s could not deliver its last events, and goes on", worker)
		s.start(worker)
		s.more(1, nodes...)
	}
	s.t.Fatalf("%s never delivered its last events:\n%s", worker, lastOf(s.running[worker].log.String(), 3000))
}

// finish waits for a host's command to end, and returns its exit code.
func (s *netSwarm) finish(host string) int {
	s.t.Helper()
	p := s.running[host]
	p.mayEnd = true
	s.await("end of the command on "+host, p.over)
	return p.code
}

// over tells whether the process has ended.
func (p *netProcess) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// await polls until holds returns true. It fails the test on a timeout, or if a command that should run ends.
func (s *netSwarm) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(*netPatience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("no %s within %s; rounds: %v", what, *netPatience, s.rounds())
		}
		for host, p := range s.running {
			if !p.mayEnd && p.over() {
				s.t.Fatalf("the command on %s ended with %d before %s:\n%s", host, p.code, what, lastOf(p.log.String(), 3000))
			}
		}
	}
}

func lastOf(text string, n int) string { return text[max(0, len(text)-n):] }

// rounds returns each node's number of rounds in the coordinator's database.
func (s *netSwarm) rounds() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	rows, err := tableRows(s.homes[netHub], `SELECT node AS n, rounds_done AS r FROM nodes WHERE run = 'e-1'`)
	if err != nil {
		return counts // the database is not ready yet
	}
	for _, row := range rows {
		var node string
		var count int
		if _, err := fmt.Sscanf(row, "n=%s r=%d", &node, &count); err != nil {
			s.t.Fatalf("%q: %v", row, err)
		}
		counts[node] = count
	}
	return counts
}

// more waits until the coordinator's database has that many more rounds of each node.
func (s *netSwarm) more(count int, nodes ...string) {
	s.t.Helper()
	before := s.rounds()
	s.await(fmt.Sprintf("%d more rounds of %s", count, strings.Join(nodes, ", ")), func() bool {
		now := s.rounds()
		for _, node := range nodes {
			if now[node] < before[node]+count {
				return false
			}
		}
		return true
	})
}

// seated waits until a worker has that many nodes in the swarm and returns their names.
func (s *netSwarm) seated(worker string, count int) []string {
	s.t.Helper()
	var nodes []string
	s.await(fmt.Sprintf("%d nodes of %s", count, worker), func() bool {
		nodes = nil
		rows, err := tableRows(s.homes[netHub], fmt.Sprintf(`SELECT node AS n FROM nodes WHERE run = 'e-1' AND worker = '%s' ORDER BY node`, worker))
		for _, row := range rows {
			nodes = append(nodes, strings.TrimSpace(strings.TrimPrefix(row, "n=")))
		}
		return err == nil && len(nodes) == count
	})
	return nodes
}

// local returns a run's name in a worker's own database.
func (s *netSwarm) local(worker string) string {
	s.t.Helper()
	rows, err := tableRows(s.homes[worker], `SELECT run AS r FROM runs ORDER BY started LIMIT 1`)
	require.NoError(s.t, err)
	require.Len(s.t, rows, 1)
	return strings.TrimSpace(strings.TrimPrefix(rows[0], "r="))
}

// moments returns the times when a node finished its rounds, from its own host's database. The coordinator's gets
// rounds later after a cut.
func (s *netSwarm) moments(node string) []time.Time {
	s.t.Helper()
	host, _, _ := strings.Cut(node, "_")
	run := "e-1"
	if s.homes[host] == "" {
		host = netHub
	} else {
		run = s.local(host)
	}
	rows, err := tableRows(s.homes[host], fmt.Sprintf(`SELECT printf('%%.6f', time) AS t FROM rounds WHERE run = '%s' AND node = '%s' ORDER BY time`, run, node))
	require.NoError(s.t, err)
	var list []time.Time
	for _, row := range rows {
		var seconds float64
		_, err := fmt.Sscanf(row, "t=%f", &seconds)
		require.NoError(s.t, err)
		list = append(list, time.Unix(0, int64(seconds*1e9)))
	}
	return list
}

// longestPause returns the longest time within a span without a finished round.
func longestPause(moments []time.Time, from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	for _, m := range moments {
		if m.After(from) && m.Before(to) {
			longest, last = max(longest, m.Sub(last)), m
		}
	}
	return max(longest, to.Sub(last))
}

// sameEverywhere checks that the coordinator's rows for a worker's nodes equal those of the worker's own database, to
// the last bit. So every round arrived, once.
func (s *netSwarm) sameEverywhere(worker string) {
	s.t.Helper()
	run := s.local(worker)
	for what, query := range map[string]string{
		"rounds": `SELECT node, round, reward, training_reward, loss, grad_norm, entropy, steps, trained_own, trained_external, late, completions
FROM rounds WHERE run = '%s' AND node IN (SELECT node FROM nodes WHERE run = '%[1]s' %s) ORDER BY node, round`,
		"task rewards": `SELECT node, round, task, completions, reward_sum FROM task_rewards
WHERE run = '%s' AND node IN (SELECT node FROM nodes WHERE run = '%[1]s' %s) ORDER BY node, round, task`,
		"peers": `SELECT node, round, peer, available, rejected, filtered, used, late, reason FROM peers
WHERE run = '%s' AND node IN (SELECT node FROM nodes WHERE run = '%[1]s' %s) ORDER BY node, round, peer`,
		"sums": `SELECT node, rounds_done, last_round, cumulative_reward FROM nodes WHERE run = '%s' %[2]s ORDER BY node`,
	} {
		own, err := tableRows(s.homes[worker], fmt.Sprintf(query, run, ""))
		require.NoError(s.t, err)
		there, err := tableRows(s.homes[netHub], fmt.Sprintf(query, "e-1", "AND worker = '"+worker+"'"))
		require.NoError(s.t, err)
		require.NotEmpty(s.t, own, what)
		require.Equal(s.t, own, there, "%s of %s here and at the coordinator's", what, worker)
	}
}

// wholeRounds checks that every node's rounds have no gap.
func (s *netSwarm) wholeRounds() {
	s.t.Helper()
	rows, err := tableRows(s.homes[netHub], `SELECT node AS n, count(*) AS c, max(round) - min(round) + 1 AS span FROM rounds WHERE run = 'e-1' GROUP BY node`)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, rows)
	for _, row := range rows {
		var node string
		var count, span int
		_, err := fmt.Sscanf(row, "n=%s c=%d span=%d", &node, &count, &span)
		require.NoError(s.t, err)
		require.Equal(s.t, span, count, "rounds of %s", node)
	}
}

// netTraffic formats the traffic of a host's links in the lab.
func (s *netSwarm) netTraffic(host string) string {
	up, down := s.lab.Link(host, netHub).Counts()
	return fmt.Sprintf("%s: %d kB to the coordinator, %d kB from it; %d packets lost, %d cut off", filepath.Base(host), up.Bytes>>10, down.Bytes>>10,
		up.Lost+down.Lost, up.Cut+down.Cut)
}
