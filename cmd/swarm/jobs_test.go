package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// jobHome is a home with jobs: train-1 done after two shortages, train-2 failed long ago, and lost-1, whose process
// no longer exists.
func jobHome(t *testing.T, home string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	now := event.Now()
	log := filepath.Join(home, "train.log")
	require.NoError(t, os.WriteFile(log+".1", []byte("loading\n"), 0o644))
	require.NoError(t, os.WriteFile(log, []byte("step  1%\rstep 100%\n\x1b[2Jdone\x00\n"), 0o644))
	zero, one := 0, 1
	j := store.Job{Name: "train", Key: "k", Command: []string{"python", "train.py", "--batch={batch_size}", "a b"}, Dir: "/work", Log: log,
		State: store.JobDone, Started: now - 400, Ended: now - 100, ExitCode: &zero}
	save := func(j store.Job, attempts ...store.JobAttempt) {
		id, err := s.StartJob(t.Context(), j)
		require.NoError(t, err)
		for i, a := range attempts {
			a.Job, a.Attempt = id, i+1
			require.NoError(t, s.SaveAttempt(t.Context(), a))
		}
	}
	save(j,
		store.JobAttempt{Started: now - 390, Ended: now - 380, Device: "cuda", GPUName: "H100", BatchSize: 64, Accumulate: 1, Cause: "torch",
			ExitCode: &one, Asked: 2e9, Free: 1e9, Allocated: 75e9, PeakGPU: 78e9, PeakHost: 2e9, Message: "CUDA out of memory at train.py:88 in step"},
		store.JobAttempt{Started: now - 370, Ended: now - 360, Device: "cuda", GPUName: "H100", BatchSize: 32, Accumulate: 2, Cause: "host_killed",
			Signal: "killed", Step: "halved the batch"},
		store.JobAttempt{Started: now - 350, Ended: now - 100, Device: "cuda", GPUName: "H100", BatchSize: 16, Accumulate: 4, GradientCheckpointing: true,
			ExitCode: &zero, PeakGPU: 40e9})
	old := j
	old.State, old.Started, old.Ended, old.ExitCode, old.Reason = store.JobFailed, now-9e6, now-8e6, &one, "exit 1 had nothing to do with memory"
	save(old, store.JobAttempt{Started: now - 9e6, Ended: now - 8e6, Cause: "failed", ExitCode: &one})
	lost := j
	lost.Name, lost.State, lost.Ended, lost.ExitCode = "lost", store.JobRunning, 0, nil
	save(lost, store.JobAttempt{Started: now - 300})
	return s
}

// within runs the program in this process, without the cost of starting one.
func within(home string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"--home", home}, args...), strings.NewReader(""), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestStatusListsJobsBeneathTheNewestRun(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	before, beforeText := within(home, "status", "-o", "json"), within(home, "status")
	jobHome(t, home)
	o := within(home, "status")
	require.Equal(t, 0, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, beforeText.stdout), "the run is shown as before:\n%s", o.stdout)
	require.Regexp(t, `(?m)^JOB +STATE +ATTEMPTS +BATCH +EFFECTIVE +GPU PEAK`, o.stdout)
	require.Regexp(t, `(?m)^train-1 +done +3 +16 × 4 +64 +78\.0 GB +2\.0 GB +5m0s +python train\.py --batch=\{batch_size\} 'a b'$`, o.stdout)
	require.Regexp(t, `(?m)^lost-1 +lost +1 +– `, o.stdout)
	require.NotContains(t, o.stdout, "train-2", "that was months ago")

	o = within(home, "status", "-o", "json")
	var run, was map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &run))
	require.NoError(t, json.Unmarshal([]byte(before.stdout), &was))
	var jobs []jobstats.JobRow
	require.NoError(t, json.Unmarshal(run["jobs"], &jobs))
	require.Len(t, jobs, 2)
	delete(run, "jobs")
	require.JSONEq(t, "[]", string(was["jobs"]), "a home without jobs")
	delete(was, "jobs")
	require.Equal(t, was, run, "nothing else changed")
	require.NotContains(t, within(home, "status", "base", "-o", "json").stdout, `"jobs"`)
}

func TestStatusOfAHomeWithJobsAlone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	jobHome(t, home)
	o := within(home, "status")
	require.Equal(t, 0, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, "JOB "), o.stdout)
	var document map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(within(home, "status", "-o", "json").stdout), &document))
	require.Len(t, document, 1)
	for _, args := range [][]string{{"status", "nosuch"}, {"down", "nosuch"}, {"status", "train-1", "--watch"}, {"logs", "train-1", "node_0"},
		{"down", "train-1", "--all"}} {
		o := within(home, args...)
		require.Equal(t, fail.ExitUsage, o.code, args)
		require.Regexp(t, `^Error: .+\nTry: .+\n$`, o.stderr)
	}
}

func TestStatusOfAJobTellsOfEachAttempt(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	jobHome(t, home)
	o := within(home, "status", "train-1")
	require.Equal(t, 0, o.code, o.stderr)
	for _, want := range []string{
		`^train-1 · done · 5m0s · 3 attempts · out of memory 2×$`, `^command  python train\.py .*'a b'$`, `^in +/work$`, `^log +/.*/train\.log$`,
		`^ +1 +64 × 1 +64 +– +H100 +78\.0 GB +2\.0 GB +10s +out of memory \(torch\)$`,
		`^ +2 +32 × 2 +64 +– +H100 +– +– +10s +out of memory \(host_killed\)$`,
		`^ +3 +16 × 4 +64 +checkpointing +H100 +40\.0 GB +– +4m10s +done$`,
		`^1: asked for 2\.0 GB, free 1\.0 GB, allocated 75\.0 GB; CUDA out of memory at train\.py:88 in step$`, `^2: halved the batch$`,
	} {
		require.Regexp(t, `(?m)`+want, o.stdout)
	}
	var job jobstats.Job
	require.NoError(t, json.Unmarshal([]byte(within(home, "status", "train-1", "-o", "json").stdout), &job))
	require.Equal(t, []any{"train-1", 3, 2, int64(2e9)}, []any{job.Job, len(job.Attempts), job.Shortages, *job.Attempts[0].AskedBytes})
	o = within(home, "status", "train-2")
	require.Regexp(t, `(?m)^train-2 · failed · exit 1 · .* · 1 attempt\nexit 1 had nothing to do with memory$`, o.stdout)
	require.Contains(t, within(home, "status", "train").stdout, "train-1 ·", "of a name the newest")
}

func TestHostileTextOfAJobStaysText(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	jobHome(t, home)
	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	const evil = "\x1b[2J\tevil\n\xff"
	_, err = db.ExecContext(t.Context(), `UPDATE jobs SET reason = ?1, dir = ?1, command = json_array(?1); `, evil)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE job_attempts SET message = ?1, step = ?1, gpu_name = ?1, signal = ?1`, evil)
	require.NoError(t, err)
	for _, args := range [][]string{{"status"}, {"status", "train-1"}, {"compare", "train-1", "lost-1"}} {
		o := within(home, args...)
		require.Equal(t, 0, o.code, o.stderr)
		require.NotContains(t, o.stdout, "\x1b")
		require.Contains(t, o.stdout, "evil")
	}
}

func TestCompareOfJobs(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	jobHome(t, home)
	o := within(home, "compare", "train-1", "train-2")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `(?m)^train-1 +done +3 +2 +16 × 4 +64 +78\.0 GB +2\.0 GB +4m10s +0 +H100$`, o.stdout)
	require.Regexp(t, `(?m)^train-2 +failed +1 +0 +– +– +– +– +– +1 +–$`, o.stdout)
	var c jobstats.JobComparison
	require.NoError(t, json.Unmarshal([]byte(within(home, "compare", "train-1", "lost", "-o", "json").stdout), &c))
	require.Equal(t, []string{"train-1", "lost-1"}, []string{c.Jobs[0].Job, c.Jobs[1].Job})
	for _, args := range []string{"train-1 base", "base train-1 nosuch", "train-1 lost-1 --gate", "train-1 --csv -", "train-1 --baseline lost-1"} {
		o := within(home, append([]string{"compare"}, strings.Fields(args)...)...)
		require.Equal(t, fail.ExitUsage, o.code, args)
		require.Regexp(t, `^Error: .+\nTry: .+\n$`, o.stderr)
		require.Empty(t, o.stdout)
	}
	require.NotContains(t, within(home, "compare").stdout, "train", "without names experiments are compared")
}

func TestAnExperimentComesBeforeAJobOfItsName(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("train", 0, 0.3)...)
	jobHome(t, home)
	require.Contains(t, within(home, "status", "train", "-o", "json").stdout, `"experiment": "train"`)
	require.Contains(t, within(home, "status", "lost").stdout, "lost-1 ·")
}

func TestLogsOfAJobAreWhatItPrinted(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := jobHome(t, home)
	o := within(home, "logs", "train-1")
	require.Equal(t, "loading\nstep 100%\ndone\uFFFD\n", o.stdout, "%s", o.stderr)
	require.Equal(t, "done\uFFFD\n", within(home, "logs", "train-1", "-n", "1").stdout)
	require.Contains(t, within(home, "logs", "train-1", "-o", "json").stdout, `{"log":"train-1","time":null,"line":"step  1%\rstep 100%"}`)
	followed := within(home, "logs", "train-1", "-f")
	require.Equal(t, []any{0, o.stdout}, []any{followed.code, followed.stdout}, "it has ended: so does following it")
	gone, err := s.StartJob(t.Context(), store.Job{Name: "gone", Key: "k", Command: []string{"x"}, State: store.JobDone, Started: 1, Ended: 2,
		Log: home + "/none"})
	require.NoError(t, err)
	o = within(home, "logs", gone)
	require.Equal(t, fail.ExitFailed, o.code)
	require.Regexp(t, `^Error: the log of gone-1 is missing: .*\nTry: swarm status gone-1`, o.stderr)
}

// processOfJob starts a job's process: a shell script.
func processOfJob(t *testing.T, s *store.Store, script string) (string, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	require.NoError(t, cmd.Start())
	id, err := supervise.Identify(cmd.Process.Pid)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // reap it: a zombie would count as ended, too
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	job, err := s.StartJob(t.Context(), store.Job{Name: "held", Key: "k", Command: []string{"sh"}, State: store.JobRunning, Started: event.Now(),
		PID: id.PID, StartTicks: int64(id.Start), BootID: id.Boot})
	require.NoError(t, err)
	return job, cmd
}

func TestDownStopsAJobAndNoOtherProcess(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := jobHome(t, home)
	job, _ := processOfJob(t, s, "exec sleep 600")
	require.Contains(t, within(home, "status", job).stdout, " · running · ")
	o := within(home, "down", "held", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var document runs.Stopped
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &document))
	require.Empty(t, document.Runs)
	require.Equal(t, []string{job, runs.OutcomeStopped, jobstats.JobLost}, []string{document.Jobs[0].Job, document.Jobs[0].Outcome, document.Jobs[0].State},
		"this process of a test leaves no word of its end")
	require.Equal(t, job+" does not run: lost.\n", within(home, "down", job).stdout)

	_, alive := processOfJob(t, s, "exec sleep 600")
	id, err := supervise.Identify(alive.Process.Pid)
	require.NoError(t, err)
	other, err := s.StartJob(t.Context(), store.Job{Name: "reused", Key: "k", Command: []string{"x"}, State: store.JobRunning, Started: 1, PID: id.PID,
		StartTicks: int64(id.Start) - 1, BootID: id.Boot})
	require.NoError(t, err)
	require.Equal(t, other+" does not run: lost.\n", within(home, "down", other).stdout, "its pid is another process's now")
	require.NoError(t, alive.Process.Signal(syscall.Signal(0)))
	require.True(t, id.Alive())
}

func TestDownSaysThatAJobDidNotStop(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := jobHome(t, home)
	ready := filepath.Join(home, "ready")
	job, cmd := processOfJob(t, s, "trap '' TERM; : > "+ready+"; while :; do sleep 0.1; done")
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, patience, time.Millisecond)
	o := within(home, "down", job, "--timeout", "1s")
	require.Equal(t, fail.ExitFailed, o.code)
	require.Regexp(t, `^Error: `+job+` still runs 1s after the request to stop\nTry: swarm down `+job+` --now`, o.stderr)
	require.NoError(t, cmd.Process.Signal(syscall.Signal(0)), "it isn't killed: nobody would be left to end its command")
}

func TestAJobThatDiedWithItsContainerIsLost(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := jobHome(t, home)
	died, err := s.StartJob(t.Context(), store.Job{Name: "train", Key: "k", Command: []string{"x"}, State: store.JobRunning, Started: event.Now() - 1000,
		Host: "another container"})
	require.NoError(t, err)
	require.Contains(t, within(home, "status", died).stdout, died+" · lost")
	require.Contains(t, within(home, "status", "train").stdout, "train-1 · done")
	require.Equal(t, "done\uFFFD\n", within(home, "logs", "train", "-n", "1").stdout)
	require.Equal(t, died+" does not run: lost.\n", within(home, "down", died).stdout)

	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "UPDATE jobs SET seen = ? WHERE job = ?", event.Now()-60, died)
	require.NoError(t, err)
	require.Contains(t, within(home, "status", "train").stdout, died+" · running", "its swarm run was heard of a minute ago")
	o := within(home, "down", "train")
	require.Equal(t, fail.ExitFailed, o.code)
	require.Contains(t, o.stderr, died+" runs on another container")
}

func TestExportHasJobs(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	jobHome(t, home)
	count := func(args ...string) int {
		o := within(home, append([]string{"export", "--format", "jsonl", "--out", "-", "--table"}, args...)...)
		require.Equal(t, 0, o.code, o.stderr)
		return strings.Count(o.stdout, "\n")
	}
	require.Equal(t, []int{3, 5}, []int{count("jobs"), count("job_attempts")})
	require.Equal(t, []int{2, 4, 0}, []int{count("jobs", "train"), count("job_attempts", "train"), count("runs", "train")})
	require.Equal(t, []int{0, 1}, []int{count("jobs", "base"), count("runs", "base")}, "who exports a run gives away no commands")
	o := within(home, "export", "train-1", "--format", "tensorboard", "--out", filepath.Join(home, "tb"))
	require.Equal(t, fail.ExitUsage, o.code, o.stderr)
}
