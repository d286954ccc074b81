package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// resumedHome is a home with the run paused-1 of 12 rounds. This process runs it. Its first attempt took 60 s, with
// rounds of 10 s. After half an hour of pause, the second attempt took 50 s, with rounds of 4 s. The last record is a
// minute old, of which 10 s count. That makes 120 s of work. 6 rounds of 4 s are left, and one of them may already be
// done.
func resumedHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	self, err := supervise.Identify(os.Getpid())
	require.NoError(t, err)
	config, err := json.Marshal(configs.Default())
	require.NoError(t, err)
	first := event.Now() - 60 - 50 - 1800 - 60
	second := first + 60 + 1800
	start := store.Run{
		Run: "paused-1", Experiment: "paused", Seed: 42, Rounds: 12, NodeIDs: []string{"node_0", "node_1"}, Host: host, PID: self.PID, StartTicks: int64(self.Start),
		BootID: self.Boot, Config: config, PricePerHour: 3.6, PriceCurrency: "$",
	}
	for round, at := range []float64{first + 10, first + 20, first + 30, second + 38, second + 42, second + 46} {
		if round%3 == 0 {
			start.Started = []float64{first, second}[round/3]
			require.NoError(t, s.StartRun(t.Context(), start))
		}
		for _, node := range start.NodeIDs {
			require.NoError(t, s.Record(t.Context(), event.Event{
				Type: event.TypeRound, Run: start.Run, Node: node, Time: at, Round: &event.Round{Round: round, Reward: 0.5, Completions: 4},
			}))
		}
		require.NoError(t, s.Flush(t.Context()))
	}
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("UPDATE attempts SET seen = started + 50 + 10 * (attempt = 1), ended = CASE attempt WHEN 1 THEN started + 60 END")
	require.NoError(t, err)
	return home
}

// For a resumed run, every surface shows the time worked, not the time since its start, and estimates from the pace
// of the current attempt.
func TestElapsedAndTimeLeftAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	home := resumedHome(t)
	const elapsed, left, pace = 120.0, 20.0, 4.0
	g := &globals{home: layout.Home(home), stdout: io.Discard, stderr: io.Discard}
	reader, err := store.OpenReader(t.Context(), g.home.Database())
	require.NoError(t, err)
	defer reader.Close()
	says := func(surface string, x stats.Status) {
		t.Helper()
		require.InDelta(t, elapsed, x.ElapsedSeconds, 1e-3, surface)
		require.InDelta(t, elapsed, x.ActiveSeconds, 1e-3, surface)
		require.NotNil(t, x.ETASeconds, surface)
		require.InDelta(t, left, *x.ETASeconds, 1e-3, surface)
		require.InDelta(t, pace, *x.SecondsPerRound, 1e-3, surface)
		require.InDelta(t, 0.12, *x.Cost, 1e-6, surface)
		require.InDelta(t, 0.14, *x.ProjectedCost, 1e-6, surface)
	}

	says("status -o json", status(t, home))
	require.Contains(t, swarm(t, home, "status", "paused").stdout, "elapsed 2m00s · eta 20s · 4.0 s/round")
	watch := swarmCommand(t, home, "status", "--watch", "-o", "json")
	lines, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	t.Cleanup(func() { watch.Process.Kill(); watch.Wait() })
	line, err := bufio.NewReader(lines).ReadBytes('\n')
	require.NoError(t, err)
	var watched stats.Status
	require.NoError(t, json.Unmarshal(line, &watched))
	says("status --watch -o json", watched)

	now, err := lifecycle.Status(t.Context(), reader, "paused")
	require.NoError(t, err)
	var summary strings.Builder
	require.NoError(t, terminal.Summary(&summary, stats.NewSummary(now, nil), terminal.Place{}))
	require.Contains(t, summary.String(), " in 2m00s\n")
	require.Contains(t, summary.String(), "(2m00s at $3.6/h)")
	ctx, cancel := context.WithCancel(t.Context())
	var plain strings.Builder
	require.NoError(t, terminal.Plain(ctx, terminal.Config{Out: &plain, Feed: terminal.NewFeed(), Poll: func(context.Context) (stats.Status, error) {
		if plain.Len() > 0 {
			cancel()
			now.Round++ // the last poll shows progress
		}
		return now, nil
	}}))
	require.Contains(t, plain.String(), "4.0 s/round · eta 20s")

	paused := configs.Default()
	paused.Experiment, paused.Rounds = "paused", 12
	row, _, err := study.RecordedRow(t.Context(), reader, "paused", paused)
	require.NoError(t, err)
	row = sweep.New([]sweep.Row{row}, 0, "").Rows[0]
	require.InDelta(t, elapsed, row.ActiveSeconds, 1e-3, "sweep")
	require.InDelta(t, left, *row.ETASeconds, 1e-3, "sweep")

	dashboard := startDashboard(t, home)
	var page struct{ Status stats.Status }
	fetchJSON(t, dashboard.url+"api/runs/paused-1", &page)
	says("dashboard", page.Status)
	var all struct{ Runs []stats.RunRow }
	fetchJSON(t, dashboard.url+"api/runs", &all)
	require.InDelta(t, elapsed, all.Runs[0].ActiveSeconds, 1e-3, "dashboard's table")
	require.InDelta(t, left, *all.Runs[0].ETASeconds, 1e-3, "dashboard's table")
	response, err := http.Get(dashboard.url + "metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Regexp(t, `swarm_run_elapsed_seconds\{[^}]*\} 120(\.0000\d*)?\n`, string(metrics))
	require.Regexp(t, `swarm_run_eta_seconds\{[^}]*\} (20(\.0000\d*)?|19\.9999\d*)\n`, string(metrics))

	report := swarm(t, home, "report", "--out", "-")
	require.Zero(t, report.code, report.stderr)
	_, data, _ := strings.Cut(report.stdout, `id="documents">`)
	data, _, _ = strings.Cut(data, "</script>")
	var documents struct {
		Runs []struct {
			Status    stats.Status
			Resources stats.Resources
		}
	}
	require.NoError(t, json.Unmarshal([]byte(data), &documents))
	says("report", documents.Runs[0].Status)
	require.InDelta(t, elapsed, documents.Runs[0].Resources.ActiveSeconds, 1e-3, "report")

	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 for the notebook's part")
	}
	program, err := exec.LookPath("swarm")
	require.NoError(t, err)
	notebook := exec.Command(python, "-c", "import swarm_bridge; from swarm_bridge import page; print(page.line(swarm_bridge.attach('paused-1').status()))")
	notebook.Dir = "../../notebooks-bridge"
	notebook.Env = append(notebook.Environ(), "SWARM_PROGRAM="+program, "SWARM_HOME="+home)
	out, err := notebook.Output()
	require.NoError(t, err, errorOutput(err))
	require.Contains(t, string(out), "elapsed 2m00s · eta 20.0 s")
}
