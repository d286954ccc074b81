package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// up parses what sweep passes on, to the same effect.
func TestUpTakesWhatSweepHandsOn(t *testing.T) {
	t.Parallel()
	given := []string{
		"--rounds", "7", "--set", "temperature=0.9", "--set", "tasks.set=nano", "--price", "$1.29/h", "-y", "--nodes=3", "--wait-for-gpu", "90s",
		"--seeds", "3", "--seed", "5", "-o", "json", "--webhook", "http://x", "--on-complete", "true", "--dry-run", "--cpu-fallback",
		"--gpu-memory", "15GB",
	}
	sweepFlags := newSweepCommand(&globals{}).Flags()
	require.NoError(t, sweepFlags.Parse(given))
	args := study.UpArguments("/h", study.Source{Config: `a "b",c.yaml`}, 6, 0, passedOn(sweepFlags), true)
	require.Equal(t, []string{"up", "--home=/h"}, args[:2])
	up := newUpCommand(&globals{}).Flags()
	up.String("home", "", "") // a flag of the root command
	require.NoError(t, up.Parse(args[1:]))
	for name, want := range map[string]string{
		"rounds": "7", "set": "[temperature=0.9,tasks.set=nano]", "price": "$1.29/h", "yes": "true", "nodes": "3", "wait-for-gpu": "1m30s", "seed": "6",
		"output": "json", "webhook": "", "on-complete": "", "cpu-fallback": "true", "gpu-memory": "15GB",
	} {
		require.Equal(t, want, up.Lookup(name).Value.String(), name)
	}
	config, err := up.GetStringSlice("config")
	require.NoError(t, err)
	require.Equal(t, []string{`a "b",c.yaml`}, config)
	sweepFlags.VisitAll(func(f *pflag.Flag) {
		if !ownSweepFlags[f.Name] {
			require.NotNil(t, up.Lookup(f.Name), "up has no --%s, which sweep would hand on", f.Name)
		}
	})
}

// sweepArgs are the arguments of a sweep of tiny runs.
func sweepArgs(names []string, more ...string) []string {
	return append(append([]string{"sweep"}, names...), tinyRun(more...)...)
}

// sweepOutput holds the lines of sweep -o json.
type sweepOutput struct {
	events  []study.Event
	summary study.Summary
}

func parseSweep(t *testing.T, stdout string) sweepOutput {
	t.Helper()
	var out sweepOutput
	for line := range strings.Lines(stdout) {
		require.Empty(t, out.summary.Type, "a line after the summary: %s", line)
		var e study.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		if e.Type == event.TypeSummary {
			require.NoError(t, json.Unmarshal([]byte(line), &out.summary), line)
			continue
		}
		out.events = append(out.events, e)
	}
	return out
}

// order lists the runs in the order of their start, such as "8loc0ext/1".
func (o sweepOutput) order() []string {
	var names []string
	for _, e := range o.events {
		if e.Type == event.TypeRunStarted {
			names = append(names, e.Experiment+"/"+string(rune('0'+e.Seed)))
		}
	}
	return names
}

// A sweep runs seed by seed. The same command then finds everything done. With one more seed it runs what is missing.
func TestASweepRunsWhatIsNotDone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	names := []string{"8loc0ext", "4loc4ext"}
	mark := filepath.Join(t.TempDir(), "mark")
	hook := []string{"--on-complete", `echo "$SWARM_EXPERIMENT $SWARM_STATE $SWARM_EXIT_CODE" >>` + mark + `; cp "$SWARM_SUMMARY" ` + mark + ".json"}
	args := func(seeds string) []string {
		return sweepArgs(names, append(hook, "--rounds", "2", "--seeds", seeds, "--price", "$3600/h", "-o", "json")...)
	}
	first := swarm(t, home, args("1,2")...)
	require.Equal(t, 0, first.code, first.stderr)
	out := parseSweep(t, first.stdout)
	require.Equal(t, study.Started, out.events[0].Type)
	require.Equal(t, []string{"8loc0ext/1", "4loc4ext/1", "8loc0ext/2", "4loc4ext/2"}, out.order())
	require.Equal(t, "done", out.summary.State)
	require.Equal(t, 4, out.summary.Done)
	require.Positive(t, out.summary.ActiveSeconds)
	require.InDelta(t, out.summary.ActiveSeconds, *out.summary.Cost, 1e-6, "a second costs a dollar")
	require.Equal(t, "$", out.summary.PriceCurrency)
	text, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, "8loc0ext 4loc4ext done 0\n", string(text), "the hook runs once, at the end")
	saved, err := os.ReadFile(mark + ".json")
	require.NoError(t, err)
	fields(t, decode(t, string(saved)), map[string]string{"state": "string", "exit_code": "number", "rows": "array", "cost": "number", "runs": "number"})

	again := swarm(t, home, args("1,2")...)
	require.Equal(t, 0, again.code, again.stderr)
	require.Empty(t, parseSweep(t, again.stdout).order(), "everything is done")
	require.NoError(t, err)
	unchanged, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, text, unchanged, "a sweep that had nothing to do shuts nothing down")

	more := swarm(t, home, args("1,2,3")...)
	require.Equal(t, 0, more.code, more.stderr)
	require.Equal(t, []string{"8loc0ext/3", "4loc4ext/3"}, parseSweep(t, more.stdout).order())

	plain := swarm(t, home, sweepArgs(names, "--rounds", "2", "--seeds", "1,2,3")...)
	require.Equal(t, 0, plain.code, plain.stderr)
	require.Contains(t, plain.stdout, "sweep done: 6 of 6 runs done")
	require.Contains(t, plain.stdout, "compare 8loc0ext 4loc4ext\n")
}

// A typo in the last configuration is reported before the first run starts.
func TestASweepIsCheckedBeforeItStarts(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "8loc0ext.yaml")
	require.NoError(t, os.WriteFile(other, []byte("rounds: 2\n"), 0o644))
	for _, x := range []struct {
		name string
		args []string
		want string
	}{
		{"no configuration", []string{"sweep"}, "at least one configuration"},
		{"unknown preset", sweepArgs([]string{"8loc0ext", "4loc5ext"}), `unknown config "4loc5ext"`},
		{"unknown flag", sweepArgs([]string{"8loc0ext"}, "--sede", "3"), "unknown flag: --sede"},
		{"bad value", sweepArgs([]string{"8loc0ext"}, "--rounds", "0"), "rounds"},
		{"bad seeds", sweepArgs([]string{"8loc0ext"}, "--seeds", "many"), `bad seeds "many"`},
		{"seed too large", sweepArgs([]string{"8loc0ext"}, "--seed", "9007199254740991", "--seeds", "2"), "bad seed"},
		{"bad price", sweepArgs([]string{"8loc0ext"}, "--price", "cheap"), `bad price "cheap"`},
		{"bad webhook", sweepArgs([]string{"8loc0ext"}, "--webhook", "example.org"), "bad webhook"},
		{"twice", sweepArgs([]string{"8loc0ext", "8loc0ext"}), `have the same experiment name "8loc0ext"`},
		{"same name", sweepArgs([]string{"8loc0ext", other}), `have the same experiment name "8loc0ext"`},
		{"name", sweepArgs([]string{"8loc0ext"}, "--name", "x"), "sweep takes no --name"},
		{"config", sweepArgs([]string{"8loc0ext"}, "--config", "4loc4ext"), "sweep takes no --config"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			o := swarm(t, home, x.args...)
			require.Equal(t, 2, o.code, o.stderr)
			require.Contains(t, o.stderr, "Error: ")
			require.Contains(t, o.stderr, x.want)
			runs, err := filepath.Glob(filepath.Join(home, "runs", "*"))
			require.NoError(t, err)
			require.Empty(t, runs, "something was started")
		})
	}
}

// A run with other settings than the sweep's is refused at once, with the keys that differ.
func TestASweepDoesNotMixExperiments(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first := swarm(t, home, sweepArgs([]string{"8loc0ext"}, "--rounds", "2")...)
	require.Equal(t, 0, first.code, first.stderr)
	other := swarm(t, home, sweepArgs([]string{"4loc4ext", "8loc0ext"}, "--rounds", "2", "--temperature", "0.5")...)
	require.Equal(t, 2, other.code, other.stdout)
	require.Contains(t, other.stderr, "temperature 1 → 0.5")
	require.NotContains(t, other.stdout, "run 1 of 2")
}

func TestADryRunStartsNothing(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	o := swarm(t, home, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--seeds", "2", "--dry-run", "--rounds", "5")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "4 runs; done 0, failed 0")
	require.Contains(t, o.stdout, "0/5")
	_, err := os.Stat(home)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A failed run doesn't stop the rest, is retried once at the end, and makes the exit code 4.
func TestAFailedRunDoesNotStopTheRest(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	// A directory in place of the first experiment's lock file makes up fail.
	require.NoError(t, os.MkdirAll(filepath.Join(home, "locks"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(home, "locks", "8loc0ext.lock"), 0o755))
	o := swarm(t, home, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "2", "--seeds", "1,", "-o", "json")...)
	require.Equal(t, 4, o.code, o.stderr)
	out := parseSweep(t, o.stdout)
	require.Equal(t, []string{"8loc0ext/1", "4loc4ext/1", "8loc0ext/1"}, out.order())
	require.Equal(t, "lost", out.summary.State)
	require.Equal(t, 1, out.summary.Failed)
	require.Equal(t, 1, out.summary.Done)
	last := out.events[len(out.events)-1]
	require.Equal(t, event.TypeRunEnded, last.Type)
	require.Equal(t, 1, *last.ExitCode)
	require.Equal(t, 2, last.Attempt)
	require.NoError(t, os.Remove(filepath.Join(home, "locks", "8loc0ext.lock")))
	again := swarm(t, home, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "2", "--seeds", "1,", "-o", "json")...)
	require.Equal(t, 0, again.code, again.stderr)
	require.Equal(t, []string{"8loc0ext/1"}, parseSweep(t, again.stdout).order())
}

// sweeping is a sweep -o json that a test follows until its run has done some rounds.
type sweeping struct {
	cmd    *exec.Cmd
	stdout chan string
	stderr *lockedBuffer
}

func startSweep(t *testing.T, home string, args []string) *sweeping {
	t.Helper()
	s := &sweeping{cmd: swarmCommand(t, home, args...), stdout: make(chan string, 1), stderr: &lockedBuffer{}}
	s.cmd.Env = append(s.cmd.Env, marker(home))
	s.cmd.Stderr = s.stderr
	read, write, err := os.Pipe()
	require.NoError(t, err)
	s.cmd.Stdout = write
	require.NoError(t, s.cmd.Start())
	write.Close()
	go func() {
		text, _ := io.ReadAll(bufio.NewReader(read))
		s.stdout <- string(text)
	}()
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

func awaitRounds(t *testing.T, home string, rounds int) stats.Status {
	t.Helper()
	var s stats.Status
	require.Eventually(t, func() bool {
		o := swarm(t, home, "status", "-o", "json")
		return o.code == 0 && json.Unmarshal([]byte(o.stdout), &s) == nil && s.Round >= rounds
	}, patience, 200*time.Millisecond, "no round %d", rounds)
	return s
}

// A signal to the sweep reaches its run once, and the run stops cleanly. The same command then resumes it.
func TestASweepStopsInOrderAndGoesOn(t *testing.T) {
	t.Parallel()
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			args := sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "1000", "-o", "json")
			s := startSweep(t, home, args)
			awaitRounds(t, home, 1)
			asked := time.Now()
			require.NoError(t, s.cmd.Process.Signal(signal))
			require.Equal(t, code, waitFor(t, s.cmd), s.stderr.String())
			require.Less(t, time.Since(asked), 25*time.Second)
			out := parseSweep(t, <-s.stdout)
			require.Equal(t, "stopped", out.summary.State)
			require.Equal(t, code, out.summary.ExitCode)
			require.Len(t, out.order(), 1, "the second run was started")
			require.NotContains(t, s.stderr.String(), "Error:")
			stopped := status(t, home)
			require.Equal(t, "stopped", stopped.State, "not in order")
			requireNoProcess(t, home)

			rounds := stopped.Round + 3
			for i, a := range args {
				if a == "--rounds" {
					args[i+1] = strconv.Itoa(rounds)
				}
			}
			again := swarm(t, home, args...)
			require.Equal(t, 0, again.code, again.stderr)
			require.Len(t, parseSweep(t, again.stdout).order(), 2)
			require.Equal(t, 2, parseSweep(t, again.stdout).summary.Done)
		})
	}
}

// If a sweep is killed, its run continues. The next sweep waits for that run, and only one sweep runs at a time.
func TestAKilledSweepsRunIsWaitedFor(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := sweepArgs([]string{"8loc0ext"}, "--rounds", "30", "-o", "json")
	s := startSweep(t, home, args)
	awaitRounds(t, home, 0)
	coordinator := status(t, home).PID
	stopBetweenWrites(t, home, coordinator) // it must not finish before the next sweep has seen it
	second := swarm(t, home, args...)
	require.Equal(t, 1, second.code)
	require.Contains(t, second.stderr, "a sweep with experiment 8loc0ext is already running")
	require.NoError(t, s.cmd.Process.Kill())
	require.Equal(t, 137, waitFor(t, s.cmd))
	require.Equal(t, "running", status(t, home).State, "the run ended with the sweep")
	mark := filepath.Join(t.TempDir(), "mark")
	again := startSweep(t, home, append(args, "--on-complete", "echo $SWARM_STATE >"+mark))
	require.Eventually(t, func() bool {
		return strings.Contains(again.stderr.String(), "experiment 8loc0ext is running already")
	}, patience, 20*time.Millisecond, "the next sweep doesn't wait: %s", again.stderr)
	send(t, coordinator, syscall.SIGCONT)
	require.Equal(t, 0, waitFor(t, again.cmd), again.stderr)
	<-s.stdout // the run got the signal, too
	out := parseSweep(t, <-again.stdout)
	require.Equal(t, 1, out.summary.Done)
	require.Empty(t, out.order(), "the run that went on was started again")
	said, err := os.ReadFile(mark)
	require.NoError(t, err, "a sweep that waited for its last run has worked")
	require.Equal(t, "done\n", string(said))
	requireNoProcess(t, home)
}

// stopBetweenWrites stops a coordinator while it holds no lock of its database. Otherwise others would wait for the
// lock in vain.
func stopBetweenWrites(t *testing.T, home string, pid int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(home, "swarm.db")+"?_busy_timeout=100&_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	require.Eventually(t, func() bool {
		send(t, pid, syscall.SIGSTOP)
		write, err := db.BeginTx(t.Context(), nil)
		if err == nil {
			return write.Rollback() == nil
		}
		send(t, pid, syscall.SIGCONT)
		return false
	}, patience, 20*time.Millisecond, "the coordinator always writes")
}

// A sweep in the background outlives the command that started it. swarm down stops its run, and with it the sweep.
func TestADetachedSweepIsStoppedByDown(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := swarmCommand(t, home, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "2000", "--detach", "-o", "json")...)
	cmd.Env = append(cmd.Env, marker(home))
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	var a background.Announcement
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &a), o.stdout)
	require.Equal(t, "8loc0ext 4loc4ext", a.Experiment)
	awaitRounds(t, home, 1)
	require.Contains(t, processes(home), a.PID)
	down := swarm(t, home, "down")
	require.Equal(t, 0, down.code, down.stderr)
	requireNoProcess(t, home)
	log, err := os.ReadFile(a.Log)
	require.NoError(t, err)
	require.Contains(t, string(log), "sweep: run 1 of 2: 8loc0ext seed 42; done 0, failed 0")
	require.Contains(t, string(log), "sweep stopped: 0 of 2 runs done")
	require.NotContains(t, string(log), "run 2 of 2")
}
