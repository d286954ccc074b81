package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/background"
)

// argvWatch searches the arguments of all processes of this machine for canaries until stop is called.
type argvWatch struct {
	mu       sync.Mutex
	canaries [][]byte
	typed    map[int]bool   // processes that a user started with secrets: they overwrite them a moment later
	found    map[int]string // by PID
	done     chan struct{}
	watching sync.WaitGroup
}

func watchArgv() *argvWatch {
	w := &argvWatch{typed: map[int]bool{}, found: map[int]string{}, done: make(chan struct{})}
	w.watching.Go(func() {
		for {
			select {
			case <-w.done:
				return
			case <-time.After(10 * time.Millisecond):
				w.look()
			}
		}
	})
	return w
}

func (w *argvWatch) look() {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		w.mu.Lock()
		for _, canary := range w.canaries {
			if bytes.Contains(text, canary) && !w.typed[pid] {
				w.found[pid] = string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
			}
		}
		w.mu.Unlock()
	}
}

func (w *argvWatch) add(canary string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canaries = append(w.canaries, []byte(canary))
}

// run runs a command with secrets in its arguments, under the usual umask, to its end.
func (w *argvWatch) run(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	cmd.Args = append([]string{"sh", "-c", `umask 022; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	w.mu.Lock()
	require.NoError(t, cmd.Start())
	w.typed[cmd.Process.Pid] = true
	w.mu.Unlock()
	return outcome{waitFor(t, cmd), stdout.String(), stderr.String()}
}

func (w *argvWatch) stop(t *testing.T) {
	close(w.done)
	w.watching.Wait()
	require.Empty(t, w.found, "secrets in arguments")
}

// canary returns a recognizable secret.
func canary(what string) string { return "canary-" + what + "-" + rand.Text() }

// Secrets are only in files of mode 0600: not in logs, in output without a terminal, in arguments, in the database,
// or in exports. A home, and every file in it with data about runs, is readable only by its owner.
func TestSecretsStayWhereOnlyTheirOwnerReads(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	secrets := map[string]string{"webhook": canary("webhook"), "on-complete": canary("complete"), "token": canary("token")}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, secrets["webhook"]) {
			told.Add(1)
		}
	}))
	defer hook.Close()
	home, worker, out := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "home"), t.TempDir()
	for _, h := range []string{home, worker} {
		t.Cleanup(func() {
			for _, pid := range processes(h) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
	w := watchArgv()
	for _, secret := range secrets {
		w.add(secret)
	}
	typed := func(home string, args ...string) outcome {
		cmd := swarmCommand(t, home, args...)
		cmd.Env = append(cmd.Env, marker(home), "SWARM_DASHBOARD_TOKEN="+secrets["token"])
		return w.run(t, cmd)
	}
	said := map[string]string{}
	note := func(what string, o outcome) {
		t.Helper()
		require.Zero(t, o.code, o.stderr)
		said[what] = o.stdout + o.stderr
	}
	mark := filepath.Join(out, "mark")
	up := func(name string, more ...string) background.Announcement {
		t.Helper()
		o := typed(home, append([]string{"up", "--detach", "-o", "json", "--name", name, "--webhook", hook.URL + "/" + secrets["webhook"],
			"--on-complete=sleep 1; echo done >>" + mark + "; : " + secrets["on-complete"]}, tinyRun(more...)...)...)
		note("up "+name, o)
		var a background.Announcement
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &a))
		return a
	}
	ended := func(times int) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, _ := os.ReadFile(mark)
			return bytes.Count(text, []byte("done")) >= times && len(processes(home))+len(processes(worker)) == 0
		}, patience, 50*time.Millisecond)
		require.EqualValues(t, times, told.Load(), "the webhook")
	}
	a := up("e", "--nodes", "1", "--rounds", "3", "--dashboard=127.0.0.1:0")
	require.NotEmpty(t, a.Dashboard)
	ended(1)
	note("resume", typed(home, "resume", "e", "--rounds", "4")) // in the background, like the original run
	ended(2)

	a = up("f", "--nodes", "0", "--rounds", "20", "--listen", "127.0.0.1:0")
	text, err := os.ReadFile(a.JoinFile)
	require.NoError(t, err)
	invitation := strings.TrimSpace(string(text))
	_, token, ok := strings.Cut(invitation, "#")
	require.True(t, ok)
	secrets["invitation"] = token
	w.add(token)
	note("join --detach", typed(worker, "join", invitation, "--detach", "-o", "json", "--name", "anna", "--nodes", "1", "--device", "cpu", "--model", tinyModel(),
		"--tasks-file", items()))
	ended(3)
	for _, args := range [][]string{
		{"status", "e", "-o", "json"}, {"status", "e"}, {"logs", "e", "-n", "all"}, {"workers", "-o", "json"}, {"ls"},
		{"export", "--format", "sqlite", "--out", filepath.Join(out, "runs.db")}, {"export", "--format", "jsonl", "--out", filepath.Join(out, "jsonl")},
		{"report", "--out", filepath.Join(out, "report.html"), "e"},
	} {
		note(strings.Join(args, " "), swarm(t, home, args...))
	}
	w.stop(t)
	for what, text := range said {
		for name, secret := range secrets {
			require.False(t, strings.Contains(text, secret), "%s prints the %s", what, name)
		}
	}

	var held []string
	for _, folder := range []string{home, worker, out} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			top, _, _ := strings.Cut(relative, string(filepath.Separator))
			// The engine and bundled models are part of the program. The message bus creates its own files, in a
			// closed folder.
			public := top == "engine" || top == "models" || strings.Contains(relative, "/exchange")
			if folder != out && !public && (info.IsDir() || secretFile(relative)) {
				require.Zero(t, info.Mode().Perm()&0o077, "%s of %s is %s", relative, folder, info.Mode())
			}
			if !info.Mode().IsRegular() {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for name, secret := range secrets {
				if bytes.Contains(data, []byte(secret)) {
					require.True(t, folder != out && (filepath.Base(path) == "secrets.json" || top == "workers" || top == "joined"), "%s holds the %s", path, name)
					require.Zero(t, info.Mode().Perm()&0o077, "%s holds the %s", path, name)
					held = append(held, name)
				}
			}
			return nil
		}))
	}
	slices.Sort(held)
	require.Subset(t, held, slices.Collect(maps.Keys(secrets)), "the test looks for what is there")
}

// secretFile tells whether a home's file has data about runs. Lock files and the like don't.
func secretFile(name string) bool {
	return strings.HasSuffix(name, ".log") || strings.Contains(name, ".log.") || strings.HasPrefix(name, "swarm.db") || strings.Contains(name, "secret") ||
		strings.HasSuffix(name, ".token") || strings.HasPrefix(name, "workers/") || strings.HasPrefix(name, "joined/")
}

// Other users can read a process's arguments while it runs, so secrets in them are overwritten.
func TestSecretsAreOverwrittenInOnesOwnArguments(t *testing.T) {
	t.Parallel()
	secret := canary("token")
	cmd := swarmCommand(t, t.TempDir(), "dashboard", "--listen", "127.0.0.1:0", "--token", secret)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line := make([]byte, 10)
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)
	require.Equal(t, "Dashboard:", string(line))
	text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
	require.NoError(t, err)
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	require.Equal(t, []string{"--token", strings.Repeat("*", len(secret))}, words[len(words)-2:])
}
