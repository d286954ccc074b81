package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// dashboardProcess is a running swarm dashboard.
type dashboardProcess struct {
	cmd *exec.Cmd
	url string
}

func startDashboard(t *testing.T, home string, args ...string) dashboardProcess {
	t.Helper()
	cmd := swarmCommand(t, home, append([]string{"dashboard", "--listen", "127.0.0.1:0"}, args...)...)
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

// A dashboard that was there before anything had run shows the run, its logs, and what it learnt from whom, as the database has it.
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
	require.Equal(t, "node_1 has nothing of round 2 in its journal", r.Note)
	require.NoError(t, os.RemoveAll(filepath.Join(home, "runs")))
	fetchJSON(t, d.url+"api/runs/4loc4ext-1/rollouts", &r)
	require.Equal(t, "the folder of 4loc4ext-1 is gone", r.Note)
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
			"Error: " + taken.Addr().String() + " is taken: another dashboard, or another program, listens there (address already in use)\nTry: another port"},
		{home, []string{"--listen", "nonsense"}, fail.ExitUsage, `listen`},
		{home, []string{"--listen", "127.0.0.1:99999"}, fail.ExitUsage, `an address and a port`},
		{home, []string{"--listen", "127.0.0.1:http"}, fail.ExitUsage, `an address and a port`},
		{home, []string{"--token", "short"}, fail.ExitUsage, "16 to 256"},
		{home, []string{"--tls-cert", "x"}, fail.ExitUsage, "belong together"},
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

func listenFor(t *testing.T, o dashboardOptions) (*dashboardService, *http.Client) {
	t.Helper()
	g := &globals{home: layout.Home(t.TempDir()), logger: slog.New(slog.DiscardHandler)}
	d, err := g.listenDashboard(t.Context(), o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return d, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
}

func TestDashboardBeyondThisMachineHasAToken(t *testing.T) {
	d, client := listenFor(t, dashboardOptions{listen: "0.0.0.0:0"})
	require.True(t, d.secret)
	require.Contains(t, d.url, "/?token=")
	require.Contains(t, strings.Join(d.notes, "\n"), "without TLS the token and everything shown travel in clear")
	port := d.listener.Addr().(*net.TCPAddr).Port
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/api/runs", port))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)

	d, _ = listenFor(t, dashboardOptions{listen: "localhost:0"})
	require.False(t, d.secret, "on this machine nobody needs one")
	d, _ = listenFor(t, dashboardOptions{listen: "127.0.0.1:0", token: "0123456789abcdef"})
	require.True(t, d.secret, "but may ask for one")
}

func TestDashboardSpeaksTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	o := dashboardOptions{listen: "127.0.0.1:0", token: "0123456789abcdef", tlsCert: filepath.Join(dir, "c"), tlsKey: filepath.Join(dir, "k")}
	require.NoError(t, os.WriteFile(o.tlsCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(o.tlsKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	d, client := listenFor(t, o)
	require.True(t, strings.HasPrefix(d.url, "https://"))
	response, err := client.Get(d.url)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor, "many streams on one connection")
	require.True(t, response.Cookies()[0].Secure)
}

func TestLogWindowKeepsWhatLiesAround(t *testing.T) {
	window := func(around float64, lines, total int) []string {
		w := &logWindow{ctx: t.Context(), query: dashboard.LogQuery{Around: around, Lines: lines}}
		for i := range total {
			if w.take(runlog.Line{Log: "node_0", Time: time.Unix(int64(i), 0), Text: fmt.Sprint(i)}) != nil {
				break
			}
		}
		w.trim(lines)
		var texts []string
		for _, l := range w.lines {
			texts = append(texts, l.Text)
		}
		return texts
	}
	require.Equal(t, []string{"7", "8", "9"}, window(0, 3, 10), "the newest")
	require.Equal(t, []string{"499", "500", "501", "502"}, window(500.5, 4, 1000), "half before, half after")
	require.Equal(t, []string{"997", "998", "999"}, window(5000, 3, 1000), "the last before")
	require.Equal(t, []string{"0", "1", "2"}, window(0.5, 3, 10), "the first after")
	require.True(t, slices.Equal([]string{"0"}, window(5, 3, 1)))
}

func TestRunsOfOneModelShareItsTokenizer(t *testing.T) {
	f := &runFolders{g: &globals{home: layout.Home(t.TempDir())}}
	tokens, err := tokenizer.Open(tokenizer.NameGPT2, "")
	require.NoError(t, err)
	f.texts = map[string]*runText{"a-1": {config: configs.Config{Model: "a-model"}, tokens: tokens}}
	again, err := f.tokenizer("a-model")
	require.NoError(t, err)
	require.Same(t, tokens, again)
	_, err = f.tokenizer("nosuch")
	require.Error(t, err)
}
