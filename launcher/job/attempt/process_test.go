package attempt_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/attempt"
)

func line(n int) []byte { return []byte(strconv.Itoa(n) + "\n") }

func TestExitsArePassedOn(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]struct {
		code   int
		signal syscall.Signal
		status int
	}{
		"exit 0":        {0, 0, 0},
		"exit 3":        {3, 0, 3},
		"exit 255":      {255, 0, 255},
		"kill -SEGV $$": {-1, syscall.SIGSEGV, 139},
		"kill -KILL $$": {-1, syscall.SIGKILL, 137},
	} {
		out := shell(t, script).Wait()
		if out.ExitCode != want.code || out.Signal != want.signal || out.Status() != want.status || out.Stopped || out.OOMKilled || len(out.Left) != 0 {
			t.Errorf("%s: %+v", script, out)
		}
	}
}

func TestWhatCannotBeStartedIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "my-script")
	if err := os.WriteFile(script, []byte("echo hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain.py")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec attempt.Spec
		want string
	}{
		"no program":     {attempt.Spec{Path: "no-such-program-here"}, "Try: give the path of an existing program"},
		"no interpreter": {attempt.Spec{Path: script}, "Try: name the interpreter"},
		"not executable": {attempt.Spec{Path: plain}, "chmod +x " + plain},
		"not on PATH":    {attempt.Spec{Path: "my-script", Dir: dir}, "Try: ./my-script"},
		"no folder":      {attempt.Spec{Path: "/bin/true", Dir: filepath.Join(dir, "none")}, "does not exist"},
		"too long":       {attempt.Spec{Path: "/bin/true", Args: []string{strings.Repeat("x", 1<<20)}}, "Try: fewer or shorter arguments"},
	} {
		p, err := attempt.Start(c.spec)
		if err == nil {
			p.Kill()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestASignalReachesTheGroupOnce(t *testing.T) {
	t.Parallel()
	r := shell(t, `trap 'echo got' TERM; (trap 'echo child got; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait; wait; exit 5`)
	r.said(t, "ready")
	if err := r.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out := r.Wait()
	if text := r.out.String(); out.ExitCode != 5 || !out.Stopped || strings.Count(text, "got\n") != 2 || strings.Count(text, "child got\n") != 1 {
		t.Errorf("%+v, %q", out, text)
	}
	if err := r.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestStopIsObeyed(t *testing.T) {
	t.Parallel()
	r := shell(t, `trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	r.said(t, "ready")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if out := r.Wait(); out.ExitCode != 0 || !out.Stopped || !strings.Contains(r.out.String(), "saved") {
		t.Errorf("%+v, %q", out, r.out.String())
	}
}

func TestOneThatIgnoresSignalsIsKilledWithAllOfItsTree(t *testing.T) {
	t.Parallel()
	r := hasty(t, `trap '' TERM INT; echo $$; (while :; do sleep 0.05; done) & echo $!; setsid sh -c 'echo $$; while :; do sleep 0.05; done'`)
	pids := r.numbers(t, 3)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	out := r.Wait()
	if out.Signal != syscall.SIGKILL || !out.Stopped || out.Shortage != nil {
		t.Errorf("%+v", out)
	}
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func TestAStoppedOneCanBeEnded(t *testing.T) {
	t.Parallel()
	r := shell(t, `echo ready; kill -STOP $$; exit 9`)
	r.said(t, "ready")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if out := r.Wait(); out.Signal != syscall.SIGTERM {
		t.Errorf("%+v", out)
	}
}

func TestWhatIsLeftBehindIsToldAboutAndEnded(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"in the session":             `sleep 1000 & echo $!`,
		"in a session of its own":    `setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2`,
		"a daemon that forked twice": `setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $!'`,
		"one that ignores signals":   `(trap '' TERM HUP; exec sleep 1000) & echo $!`,
		"one that is stopped":        `sleep 1000 & echo $!; kill -STOP $!`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hasty(t, script)
			out := r.Wait()
			pid := r.numbers(t, 1)[0]
			if out.ExitCode != 0 || len(out.Left) != 1 || out.Left[0] != pid || runs(pid) {
				t.Errorf("%+v; process %d runs: %t", out, pid, runs(pid))
			}
			warned := r.warned.String()
			if strings.Count(warned, "\n") != 1 || !strings.Contains(warned, "process "+strconv.Itoa(pid)) || !strings.Contains(warned, "Try: ") {
				t.Errorf("warned %q", warned)
			}
			if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
				t.Errorf("process %d was not reaped", pid)
			}
		})
	}
}

func TestWhatEndsByItselfInTimeIsNotEnded(t *testing.T) {
	t.Parallel()
	r := shell(t, `(sleep 1; echo late) & exit 4`)
	out := r.Wait()
	if out.ExitCode != 4 || len(out.Left) != 0 || r.out.String() != "late\n" || out.Seconds < 1 {
		t.Errorf("%+v, %q", out, r.out.String())
	}
}

func TestAStopCutsTheTimeOfWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := begin(t, func(s *attempt.Spec) { s.Grace = time.Hour }, "/bin/sh", "-c", "sleep 1000 & echo $!")
	pid := r.numbers(t, 1)[0]
	eventually(t, "it was told about", func() bool { return r.warned.String() != "" })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if out := r.Wait(); out.Stopped || out.ExitCode != 0 || runs(pid) {
		t.Errorf("%+v: it had ended by itself; process %d runs: %t", out, pid, runs(pid))
	}
}

func TestChildrenOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	other := exec.Command("/bin/sh", "-c", "setsid sleep 1000 & echo $!; wait")
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	text, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(grandchild, syscall.SIGKILL)
	zombie := exec.Command("/bin/sh", "-c", "exit 6")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	out := hasty(t, "sleep 1000 & sleep 0.2; kill -KILL $$").Wait()
	if len(out.Left) != 1 || !runs(other.Process.Pid) || !runs(grandchild) {
		t.Errorf("%+v; others run: %t, %t", out, runs(other.Process.Pid), runs(grandchild))
	}
	if zombie.Wait(); zombie.ProcessState == nil || zombie.ProcessState.ExitCode() != 6 {
		t.Errorf("somebody else's child was reaped: %v", zombie.ProcessState)
	}
}

func TestTheCommandEndsWithItsLauncher(t *testing.T) {
	t.Parallel()
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), playVariable+"=print pid", "GORACE=atexit_sleep_ms=0")
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || !runs(pid) {
		t.Fatalf("%q, %v", text, err)
	}
	launcher.Process.Kill()
	launcher.Wait()
	eventually(t, "the command has ended", func() bool { return !runs(pid) })
}

func TestSeveralAttemptsAtOnceKeepApart(t *testing.T) {
	t.Parallel()
	first := hasty(t, "setsid sleep 1000 & echo $!; sleep 0.1; read x")
	pid := first.numbers(t, 1)[0]
	second := shell(t, "sleep 1000")
	if out := first.Wait(); len(out.Left) != 1 || out.Left[0] != pid {
		t.Errorf("%+v", out)
	}
	if !runs(second.PID()) {
		t.Error("the other attempt's command has ended too")
	}
}
