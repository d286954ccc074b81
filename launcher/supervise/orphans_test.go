package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// middle is set in the copy of the test binary that acts as a launcher to be killed.
const middle = "SUPERVISE_TEST_MIDDLE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(middle); dir != "" {
		playLauncher(dir)
	}
	if dir := os.Getenv(contained); dir != "" {
		sweepContained(dir)
	}
	if pid, err := strconv.Atoi(os.Getenv(tracerOf)); err == nil {
		playTracer(pid)
	}
	os.Exit(hermetic.Main(m))
}

// playLauncher starts children, prints their pids, and waits. One exits when its stdin closes, one ignores
// everything except SIGKILL, and one has a suspended engine in a group of its own.
func playLauncher(dir string) {
	for name, script := range map[string]string{
		"good":     `cat >/dev/null`,
		"stubborn": `trap '' TERM; while :; do sleep 1000; done`,
		"deserter": `setsid sh -c 'kill -STOP $$; sleep 1000' & echo engine $! >&2; cat >/dev/null`,
	} {
		c, err := Start(Process{
			Path: "/bin/sh", Args: []string{"-c", script}, LogPath: filepath.Join(dir, name, "log.txt"), PIDPath: filepath.Join(dir, name, PIDFileName),
			StopLimit: 50 * time.Millisecond, // makes the watch tick often
		}, func(event.Event) {})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(name, c.PID())
	}
	for {
		line, _ := os.ReadFile(filepath.Join(dir, "deserter", "log.txt"))
		if strings.HasSuffix(string(line), "\n") {
			fmt.Print(string(line))
			select {}
		}
		time.Sleep(time.Millisecond)
	}
}

// killedLauncher starts a launcher, waits until it has started these children, and returns their pids. kill kills
// it with SIGKILL.
func killedLauncher(t *testing.T, dir string, children int) (pids map[string]int, kill func()) {
	t.Helper()
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), middle+"="+dir)
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		launcher.Process.Kill()
		launcher.Wait()
	})
	t.Cleanup(kill)
	pids = map[string]int{}
	for lines := bufio.NewScanner(stdout); len(pids) < children && lines.Scan(); {
		var name string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &name, &pid); err != nil {
			t.Fatalf("the launcher says %q", lines.Text())
		}
		pids[name] = pid
		t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL) })
	}
	return pids, kill
}

func TestOrphansOfAKilledLauncher(t *testing.T) {
	dir := t.TempDir()
	pids, kill := killedLauncher(t, dir, 4)
	runs := func(name string) bool { return groupRuns(t, pids[name]) }

	all := []string{"good", "stubborn", "deserter", "engine"}
	if found, err := SweepOrphans(t.Context(), dir, time.Second); err != nil || len(found) != 0 || slices.ContainsFunc(all, func(n string) bool { return !runs(n) }) {
		t.Fatalf("a living launcher's children were touched: %v %v", found, err)
	}
	// The engine is suspended, so it cannot notice that its node is gone.
	eventually(t, "the engine is in the node's pid file", func() bool {
		f, err := readPIDFile(filepath.Join(dir, "deserter", PIDFileName))
		return err == nil && len(f.Also) == 1 && f.Also[0].PID == pids["engine"]
	})
	kill()
	if err := syscall.Kill(pids["deserter"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what listens or was killed is gone", func() bool { return !runs("good") && !runs("deserter") })
	if !runs("stubborn") || !runs("engine") {
		t.Fatal("the stubborn child or the engine is gone by itself")
	}
	found, err := SweepOrphans(t.Context(), dir, 50*time.Millisecond)
	want := []Orphan{{pids["engine"], filepath.Join(dir, "deserter")}, {pids["stubborn"], filepath.Join(dir, "stubborn")}}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("found %v, %v; want %v", found, err, want)
	}
	// Their new parent may take a moment to reap them.
	eventually(t, "the stubborn child and the engine are gone", func() bool { return !runs("stubborn") && !runs("engine") })
	for _, name := range []string{"good", "stubborn", "deserter"} {
		if _, err := os.Stat(filepath.Join(dir, name, PIDFileName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: pid file left", name)
		}
	}
}

// A process that has got a reused pid must not be killed.
func TestSweepSparesStrangers(t *testing.T) {
	stranger := exec.Command("/bin/sleep", "1000")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stranger.Process.Kill()
		stranger.Wait()
	}()
	id, err := Identify(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other, rebooted := id, id
	other.Start++
	rebooted.Boot = "another boot"
	for name, recorded := range map[string]Identity{"another start time": other, "another boot": rebooted} {
		dir := t.TempDir()
		data, err := json.Marshal(pidFile{Process: recorded, Parent: rebooted})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, PIDFileName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := SweepOrphans(t.Context(), dir, time.Millisecond)
		if err != nil || len(found) != 0 || !id.Alive() {
			t.Errorf("%s: found %v, %v; stranger alive %t", name, found, err, id.Alive())
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: stale file left", name)
		}
	}
}

// A sweep touches only pid files that this package wrote: not another program's file with that name, nor files
// behind a link or too deep.
func TestSweepTouchesOnlyItsOwnFiles(t *testing.T) {
	dir := t.TempDir()
	own, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := own
	gone.Start++
	dead, err := json.Marshal(pidFile{Process: gone, Parent: gone})
	if err != nil {
		t.Fatal(err)
	}
	living, err := json.Marshal(pidFile{Process: gone, Parent: own})
	if err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.Symlink(foreign, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		filepath.Join(dir, "cut", PIDFileName):            `{"process":{"pid":1`,
		filepath.Join(dir, "cut", PIDFileName+temporary):  `{"pro`,
		filepath.Join(dir, "other", PIDFileName):          `{"pid": 4711}`,
		filepath.Join(dir, "older", PIDFileName):          `4711`,
		filepath.Join(dir, "nobody", PIDFileName):         `{"process":{"pid":-1},"parent":{"pid":0}}`,
		filepath.Join(dir, "init", PIDFileName):           `{"process":{"pid":1,"start_ticks":1,"boot_id":"x"},"parent":{"pid":1,"start_ticks":1,"boot_id":"x"}}`,
		filepath.Join(dir, "more", PIDFileName):           strings.Replace(string(dead), "{", `{"owner":"web server",`, 1),
		filepath.Join(dir, "a", "b", "c", PIDFileName):    string(dead),
		filepath.Join(foreign, PIDFileName):               string(dead),
		filepath.Join(dir, "busy", PIDFileName+temporary): string(living),
		// from here on, written by this package
		filepath.Join(dir, "run", "node", PIDFileName):           string(dead),
		filepath.Join(dir, "run", "torn", PIDFileName+temporary): string(dead),
	}
	for path, content := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{dir, filepath.Join(dir, "absent")} {
		if found, err := SweepOrphans(t.Context(), at, time.Millisecond); err != nil || len(found) != 0 {
			t.Errorf("%s: %v %v", at, found, err)
		}
	}
	for path := range files {
		_, err := os.Stat(path)
		if mine := strings.Contains(path, "/run/"); mine != errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: ours %t, %v", path, mine, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "4242 (a (strange) name) S 1 4200 4100 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 1 18446744073709551615 1"
	got, err := parseStat([]byte(line))
	if want := (Stat{State: 'S', Parent: 1, Group: 4200, Session: 4100, Start: 987654, Resident: int64(os.Getpagesize())}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", strings.Replace(line, "987654", "soon", 1), strings.Replace(line, "4200", "-", 1)} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q parsed to %+v", bad, got)
		}
	}
}
