package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/stretchr/testify/require"
)

// teller returns a Process for Finish and the buffer with its output.
func teller() (Process, *lockedBuffer) {
	said := &lockedBuffer{}
	return Process{Stderr: said, Logger: slog.New(slog.NewTextHandler(said, nil))}, said
}

func TestOnCompleteLearnsWhatEnded(t *testing.T) {
	t.Parallel()
	g, said := teller()
	folder := filepath.Join(t.TempDir(), "new", "run")
	log := filepath.Join(t.TempDir(), "coordinator.log")
	c := Hooks{Command: `echo "$SWARM_RUN|$SWARM_EXPERIMENT|$SWARM_STATE|$SWARM_EXIT_CODE"; cat "$SWARM_SUMMARY"; echo err >&2; tty`}
	c.Finish(t.Context(), g, Ending{
		Run: "e-1", Experiment: "e", State: "lost", ExitCode: 4, Summary: map[string]any{"round": 7}, Folder: folder, Log: log,
	})
	written, err := os.ReadFile(log)
	require.NoError(t, err)
	for _, text := range []string{said.String(), string(written)} {
		require.Contains(t, text, "e-1|e|lost|4\n{\n  \"round\": 7\n}\nerr\nnot a tty\n")
	}
	require.Contains(t, said.String(), "--on-complete failed", "tty's exit code is 1")
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "summary.json")}, files, "a temporary file is left")
}

func TestOnCompleteLogsOnceWhereStderrIsTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coordinator.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer log.Close()
	g := Process{Stderr: log, Logger: slog.New(slog.DiscardHandler)}
	c := Hooks{Command: "echo once"}
	c.Finish(t.Context(), g, Ending{State: "done", Summary: 1, Folder: t.TempDir(), Log: path})
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "once\n", string(written))
}

// The webhook reports every end. The command runs only after ends that no signal caused.
func TestOnCompleteIsNotRunAfterASignal(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&got, r.Body) }))
	defer server.Close()
	for code, runs := range map[int]bool{0: true, 1: true, 3: true, 4: true, 130: false, 143: false} {
		g, said := teller()
		got.Reset()
		mark := filepath.Join(t.TempDir(), "mark")
		c := Hooks{Command: "touch " + mark, Webhook: server.URL + "/s3cret"}
		require.NoError(t, c.Check())
		c.Finish(t.Context(), g, Ending{ExitCode: code, Summary: map[string]int{"exit_code": code}, Folder: t.TempDir()})
		_, err := os.Stat(mark)
		require.Equal(t, runs, err == nil, "exit code %d", code)
		var document map[string]int
		require.NoError(t, json.Unmarshal(got.Bytes(), &document))
		require.Equal(t, code, document["exit_code"])
		require.NotContains(t, said.String(), "s3cret")
	}
}

// The record that hooks are due is gone before the command runs: the command may shut down the machine, and the next
// boot must not do so again.
func TestHooksAreDueUntilTheCommandRuns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, (&Hooks{}).MarkDue(folder))
	require.False(t, Due(folder))
	g, said := teller()
	c := Hooks{Command: "ls -a " + folder}
	require.NoError(t, c.MarkDue(folder))
	require.True(t, Due(folder))
	c.Finish(t.Context(), g, Ending{State: "done", Summary: 1, Folder: folder})
	require.Contains(t, said.String(), "\nsummary.json\n")
	require.NotContains(t, said.String(), dueName)
	require.False(t, Due(folder))

	require.NoError(t, c.MarkDue(folder))
	require.NoError(t, (&Hooks{}).MarkDue(folder))
	require.False(t, Due(folder), "an attempt without hooks owes none")
}

// A host that shuts down sends SIGTERM. Hooks that it interrupts stay due. Ctrl-C skips them for good. The test is not
// parallel, because it sends signals to this process.
func TestHooksStayDueIfTheHostShutsDown(t *testing.T) {
	for signal, due := range map[syscall.Signal]bool{syscall.SIGTERM: true, syscall.SIGINT: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = syscall.Kill(os.Getpid(), signal)
			<-r.Context().Done()
		}))
		g, said := teller()
		folder := t.TempDir()
		c := Hooks{Command: "echo never", Webhook: server.URL}
		require.NoError(t, c.MarkDue(folder))
		c.Finish(t.Context(), g, Ending{State: "done", Summary: 1, Folder: folder})
		server.Close()
		require.Contains(t, said.String(), "Skipping --webhook and --on-complete.")
		require.NotContains(t, said.String(), "never")
		require.Equal(t, due, Due(folder), signal)
	}
}

func TestAFailingWebhookIsAWarningWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	g, said := teller()
	mark := filepath.Join(t.TempDir(), "mark")
	c := Hooks{Command: "touch " + mark, Webhook: server.URL + "/s3cret"}
	c.Finish(t.Context(), g, Ending{State: "done", Summary: 1, Folder: t.TempDir()})
	require.Contains(t, said.String(), "the webhook could not be reached")
	require.Contains(t, said.String(), "it answered 404 Not Found")
	require.NotContains(t, said.String(), "s3cret")
	require.FileExists(t, mark, "the command is run nevertheless")
}

func TestOnCompleteRunsWhereTheSummaryCantBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	g, said := teller()
	c := Hooks{Command: `echo "summary is [$SWARM_SUMMARY]"`}
	c.Finish(t.Context(), g, Ending{State: "done", Summary: 1, Folder: filepath.Join(file, "below")})
	require.Contains(t, said.String(), "summary is []\n")
	require.Contains(t, said.String(), "not written")
}

// A command that hangs is ended with everything it started.
func TestACommandIsBoundedInTime(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	hang := shellCommand{
		text:    `trap "" TERM; echo $$ >` + pids + `; sh -c 'trap "" TERM; echo $$ >>` + pids + `; while :; do sleep 0.1; done'`,
		environ: os.Environ(), limit: 500 * time.Millisecond, grace: 200 * time.Millisecond,
	}
	require.EqualError(t, hang.run(t.Context(), io.Discard), "it took longer than 500ms")
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	require.Len(t, lines, 2)
	for _, line := range lines {
		pid, err := strconv.Atoi(line)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !running1(pid) }, patience, 10*time.Millisecond, "process %d", pid)
	}
}

// running1 reports whether a process exists and is not a zombie.
func running1(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func TestACommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	out := &lockedBuffer{}
	go func() {
		for out.String() == "" && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		stop(&interrupt.Error{Signal: syscall.SIGTERM})
	}()
	s := shellCommand{text: "echo here; sleep 60", environ: os.Environ(), limit: patience, grace: time.Second}
	var stopped *interrupt.Error
	require.ErrorAs(t, s.run(ctx, out), &stopped)
}

func TestACommandMayLeaveSomethingBehind(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	s := shellCommand{text: "sleep 3 & echo started", environ: os.Environ(), limit: patience, grace: time.Second}
	require.NoError(t, s.run(t.Context(), out))
	require.Equal(t, "started\n", out.String())
	var exit interface{ ExitCode() int }
	require.True(t, errors.As(shellCommand{text: "exit 7", environ: os.Environ(), limit: patience}.run(t.Context(), out), &exit))
	require.Equal(t, 7, exit.ExitCode())
}

func TestASwarmThatOnCompleteStartsHasItsOwnName(t *testing.T) {
	t.Parallel()
	own := []string{"SWARM_EXPERIMENT=mine", "SWARM_SEED=3", "PATH=/bin"}
	require.Equal(t, own, configs.WithoutHook(own), "outside of a hook the variable is the user's")
	hook := append([]string{"PATH=/bin", "SWARM_SEED=3"}, Ending{Run: "e-1", Experiment: "e", State: "done"}.environ("/x/summary.json")...)
	require.Equal(t, []string{"PATH=/bin", "SWARM_SEED=3"}, configs.WithoutHook(hook))
}

func TestCompletionIsCheckedBeforeTheRun(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&Hooks{}).Check())
	require.NoError(t, (&Hooks{Command: "true", Webhook: "https://example.org/x"}).Check())
	for _, hooks := range []Hooks{{Webhook: "example.org/x"}, {Command: "a\x00b"}} {
		var mistake *configs.Error
		require.ErrorAs(t, hooks.Check(), &mistake)
	}
}
