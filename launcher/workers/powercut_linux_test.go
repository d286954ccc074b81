package workers

import (
	"bufio"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
)

var (
	powercutLives = flag.Int("powercut.lives", 3, "power cuts of TestPowerCutsOfBothSides")
	powercutSeed  = flag.Uint64("powercut.seed", 23, "and their seed")
)

// machine is a simulated machine that can lose power: a disk and a process.
type machine struct {
	part    string
	disk    *powercut.FS
	process *exec.Cmd
	stdin   io.WriteCloser
	lines   chan string
}

// start starts a process on the machine.
func (m *machine) start(t *testing.T, where string, first int) {
	t.Helper()
	m.process = exec.Command(os.Args[0])
	m.process.Env = append(os.Environ(), partVariable+"="+m.part, homeVariable+"="+m.disk.Dir, whereVariable+"="+where, firstVariable+"="+strconv.Itoa(first))
	m.process.Stderr = os.Stderr
	var err error
	m.stdin, err = m.process.StdinPipe()
	require.NoError(t, err)
	out, err := m.process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, m.process.Start())
	lines := make(chan string, 1<<16)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	m.lines = lines
	process := m.process
	t.Cleanup(func() { _ = process.Process.Kill() })
}

// line waits for a line that starts with a word, and returns the rest of the line. Any error of the process fails
// the test.
func (m *machine) line(t *testing.T, word string) string {
	t.Helper()
	for deadline := time.After(2 * time.Minute); ; {
		select {
		case line, ok := <-m.lines:
			if !ok || strings.HasPrefix(line, "error") {
				t.Fatalf("%s: %q", m.part, line)
			}
			if rest, found := strings.CutPrefix(line, word); found {
				return strings.TrimSpace(rest)
			}
		case <-deadline:
			t.Fatalf("%s says no %q", m.part, word)
		}
	}
}

// cut kills the process with SIGKILL and replaces the machine's disk by one with what survives. It returns the last
// lines of output.
func (m *machine) cut(t *testing.T, fate powercut.Fate) (last []string) {
	t.Helper()
	require.NoError(t, m.process.Process.Kill())
	for line := range m.lines {
		last = append(last, line)
	}
	_ = m.process.Wait()
	log := m.disk.Log(t)
	m.disk.Unmount()
	left := t.TempDir()
	require.NoError(t, log.Cut(len(log.Changes), fate, left))
	m.disk = powercut.Mount(t)
	m.disk.Fill(t, left)
	return last
}

// TestPowerCutsOfBothSides repeatedly cuts the power of a worker, of its coordinator and of both, while events
// travel over TLS and NATS from the worker's outbox into the coordinator's database. At the end the database has
// every event that was ever synced exactly once. The invitation and the worker's credentials never change.
func TestPowerCutsOfBothSides(t *testing.T) {
	coordinator, worker := &machine{part: "coordinator", disk: powercut.Mount(t)}, &machine{part: "worker", disk: powercut.Mount(t)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	where := listener.Addr().String()
	require.NoError(t, listener.Close())
	coordinator.start(t, where, 0)
	invitation := coordinator.line(t, "ready")
	first := 0
	worker.start(t, invitation, first)

	synced := map[int]bool{}
	note := func(from, to int) {
		for n := from; n <= to; n++ {
			synced[n] = true
		}
	}
	hear := func(line string) (waits int) {
		var n int
		_, err := fmt.Sscan(line, &n, &waits)
		require.NoError(t, err, line)
		note(first, n)
		return waits
	}
	r := rand.New(rand.NewPCG(*powercutSeed, 0))
	for life := range *powercutLives {
		for told := 0; told < 10; told++ { // some of them delivered
			if hear(worker.line(t, "synced")) > 50 {
				told--
			}
		}
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		fate := powercut.Fate{Journaled: true}
		if life%2 == 0 {
			fate.Random = r
		}
		who := []string{"both", "worker", "coordinator"}[life%3]
		if who != "worker" {
			coordinator.cut(t, fate)
		}
		if who != "coordinator" {
			for _, line := range worker.cut(t, fate) {
				if rest, found := strings.CutPrefix(line, "synced"); found {
					hear(rest)
				}
			}
			first = (life + 1) * 100_000
		}
		if who != "worker" {
			coordinator.start(t, where, 0)
			require.Equal(t, invitation, coordinator.line(t, "ready"), "the key and the token are on the disk")
		}
		if who != "coordinator" {
			worker.start(t, invitation, first)
		}
	}
	hear(worker.line(t, "synced"))
	fmt.Fprintln(worker.stdin)
	worker.line(t, "delivered")
	require.NoError(t, coordinator.stdin.Close())
	for range coordinator.lines {
	}
	require.NoError(t, coordinator.process.Wait())

	database, err := sql.Open("sqlite3", "file:"+filepath.Join(coordinator.disk.Dir, "swarm.db")+"?mode=ro")
	require.NoError(t, err)
	defer database.Close()
	rows, err := database.Query("SELECT message, count(*) FROM events WHERE node = ? AND type = 'warning' GROUP BY message", partNode)
	require.NoError(t, err)
	defer rows.Close()
	there := map[int]bool{}
	for rows.Next() {
		var message string
		var times int
		require.NoError(t, rows.Scan(&message, &times))
		n, err := strconv.Atoi(message)
		require.NoError(t, err)
		require.Equal(t, 1, times, "event %d", n)
		there[n] = true
	}
	require.NoError(t, rows.Err())
	lost := 0
	for n := range synced {
		if !there[n] {
			lost++
		}
	}
	require.Zero(t, lost, "of %d events that were synced", len(synced))
	t.Logf("%d power cuts; %d events synced, none lost; %d in the database", *powercutLives, len(synced), len(there))
}
