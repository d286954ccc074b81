package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// dashboardProcess is a running swarm dashboard.
type dashboardProcess struct {
	cmd *exec.Cmd
	url string
}

func startDashboard(t *testing.T, home string, args ...string) dashboardProcess {
	t.Helper()
	cmd := swarmCommand(t, home, append([]string{"dashboard", "--listen", "127.0.0.1:0", "--no-token"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "Dashboard: ")
	require.True(t, ok, line)
	return dashboardProcess{cmd, address}
}

func fetchJSON(t *testing.T, address string, into any) {
	t.Helper()
	response, err := http.Get(address)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", address, text)
	require.NoError(t, json.Unmarshal(text, into))
}

// A dashboard that was started before the first run shows the run, its logs, and which nodes it learned from, as in
// the database.
func TestDashboardOfARealRun(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d := startDashboard(t, home)
	var runs struct {
		Database string
		Runs     []struct {
			Run, State string
			Round      int
			Reward     float64 `json:"cumulative_reward"`
		}
	}
	fetchJSON(t, d.url+"api/runs", &runs)
	require.Equal(t, "missing", runs.Database)
	up := swarm(t, home, append([]string{"up", "--config", "4loc4ext", "--rounds", "3"}, tinyRun()...)...)
	require.Equal(t, 0, up.code, up.stderr)
	fetchJSON(t, d.url+"api/runs", &runs)
	require.Len(t, runs.Runs, 1)
	require.Equal(t, "done", runs.Runs[0].State)
	require.Equal(t, 3, runs.Runs[0].Round)

	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	var used int
	for _, node := range []string{"node_0", "node_1"} {
		rounds, err := reader.NodeRounds(t.Context(), "4loc4ext-1", node, 0, 10)
		require.NoError(t, err)
		for _, recorded := range rounds {
			var r dashboard.Rollouts
			fetchJSON(t, fmt.Sprintf("%sapi/runs/4loc4ext-1/rollouts?node=%s&round=%d", d.url, node, recorded.Round), &r)
			require.Empty(t, r.Note)
			require.Equal(t, 3, r.Rounds)
			sum, n := 0.0, 0
			for _, q := range r.Questions {
				for _, c := range q.Completions {
					sum, n = sum+*c.Reward, n+1
				}
			}
			require.Equal(t, recorded.Completions, n)
			require.InDelta(t, recorded.Reward, sum/float64(n), 1e-12, "the rewards shown are those recorded")
			require.Len(t, r.Externals, recorded.TrainedExternal)
			for _, e := range r.Externals {
				require.Contains(t, []string{"node_0", "node_1"}, e.From)
				require.NotEqual(t, node, e.From, "nobody learns from itself")
				used++
			}
		}
	}
	peers, err := reader.PeerTotals(t.Context(), "4loc4ext-1")
	require.NoError(t, err)
	for _, p := range peers {
		used -= p.Used
	}
	require.Zero(t, used, "as many as the database says")

	var logs dashboard.Logs
	fetchJSON(t, d.url+"api/runs/4loc4ext-1/logs?lines=5", &logs)
	require.NotEmpty(t, logs.Lines)
	require.NoError(t, os.RemoveAll(filepath.Join(home, "runs", "4loc4ext-1", "node_1")))
	var r dashboard.Rollouts
	fetchJSON(t, d.url+"api/runs/4loc4ext-1/rollouts?node=node_1", &r)
	require.Equal(t, "the journal of node_1 has no round 2", r.Note)
	require.NoError(t, os.RemoveAll(filepath.Join(home, "runs")))
	fetchJSON(t, d.url+"api/runs/4loc4ext-1/rollouts", &r)
	require.Equal(t, "the folder of 4loc4ext-1 is missing", r.Note)
	fetchJSON(t, d.url+"api/runs/4loc4ext-1/logs", &logs)
	require.Equal(t, r.Note, logs.Note)

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, fail.ExitSignal+int(syscall.SIGINT), waitFor(t, d.cmd))
}

func TestDashboardSaysWhyItCannotListen(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "swarm.db"), []byte(strings.Repeat("notes ", 1000)), 0o600))
	for _, test := range []struct {
		home string
		args []string
		code int
		text string
	}{
		{home, []string{"--listen", taken.Addr().String()}, fail.ExitFailed,
			"Error: cannot listen on " + taken.Addr().String() + ": another dashboard or another program listens there (address already in use)\nTry: another port"},
		{home, []string{"--listen", "nonsense"}, fail.ExitUsage, `listen`},
		{home, []string{"--listen", "127.0.0.1:99999"}, fail.ExitUsage, `an address and a port`},
		{home, []string{"--listen", "127.0.0.1:http"}, fail.ExitUsage, `an address and a port`},
		{home, []string{"--token", "short"}, fail.ExitUsage, "16 to 256"},
		{home, []string{"--tls-cert", "x"}, fail.ExitUsage, "must be given together"},
		{home, []string{"--tls-cert", "x", "--tls-key", "y"}, fail.ExitUsage, "no such file"},
		{home, []string{"extra"}, fail.ExitUsage, "takes no argument"},
		{foreign, []string{"--listen", "127.0.0.1:0"}, fail.ExitFailed, "not a swarm database"},
	} {
		got := swarm(t, test.home, append([]string{"dashboard"}, test.args...)...)
		require.Equal(t, test.code, got.code, "%v: %s", test.args, got.stderr)
		require.Contains(t, got.stderr, test.text)
		require.Empty(t, got.stdout)
		require.LessOrEqual(t, strings.Count(got.stderr, "\n"), 2)
	}
}
