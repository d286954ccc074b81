package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// middle is set in the copy of the test binary that plays a launcher to be killed.
const middle = "SUPERVISE_TEST_MIDDLE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(middle); dir != "" {
		playLauncher(dir)
	}
	os.Exit(m.Run())
}

// playLauncher starts one child that exits when its stdin closes and one that ignores everything but SIGKILL, says so, and waits.
func playLauncher(dir string) {
	for name, script := range map[string]string{
		"good":     `cat >/dev/null`,
		"stubborn": `trap '' TERM; while :; do sleep 1000; done`,
	} {
		c, err := Start(Process{
			Path: "/bin/sh", Args: []string{"-c", script}, LogPath: filepath.Join(dir, name, "log.txt"), PIDPath: filepath.Join(dir, name, PIDFileName),
		}, func(event.Event) {})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(name, c.PID())
	}
	select {}
}

func TestOrphansOfAKilledLauncher(t *testing.T) {
	dir := t.TempDir()
	launcher := exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), middle+"="+dir)
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for lines := bufio.NewScanner(stdout); len(pids) < 2 && lines.Scan(); {
		var name string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &name, &pid); err != nil {
			t.Fatalf("the launcher says %q", lines.Text())
		}
		pids[name] = pid
		defer syscall.Kill(-pid, syscall.SIGKILL)
	}
	runs := func(name string) bool { return groupRuns(t, pids[name]) }

	if found, err := SweepOrphans(t.Context(), dir, time.Second); err != nil || len(found) != 0 || !runs("good") || !runs("stubborn") {
		t.Fatalf("a living launcher's children were touched: %v %v", found, err)
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	launcher.Wait()
	eventually(t, "the child that listens to its stdin is gone", func() bool { return !runs("good") })
	if !runs("stubborn") {
		t.Fatal("the stubborn child is gone by itself")
	}
	found, err := SweepOrphans(t.Context(), dir, 50*time.Millisecond)
	if err != nil || len(found) != 1 || found[0].PID != pids["stubborn"] || filepath.Base(found[0].Dir) != "stubborn" {
		t.Errorf("found %v, %v", found, err)
	}
	// Its new parent may take a moment to reap it.
	eventually(t, "the stubborn child is gone", func() bool { return !runs("stubborn") })
	for name := range pids {
		if _, err := os.Stat(filepath.Join(dir, name, PIDFileName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: pid file left", name)
		}
	}
}

// A pid that has been given to someone else since must not be killed.
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
	for name, recorded := range map[string]Identity{"another start time": other, "another boot": rebooted, "nonsense": {PID: -1}} {
		dir := t.TempDir()
		data, err := json.Marshal(pidFile{Process: recorded})
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

func TestSweepOfBadFilesAndMissingFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, PIDFileName), []byte(`{"process":{"pid":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, filepath.Join(dir, "absent")} {
		if found, err := SweepOrphans(t.Context(), at, time.Millisecond); err != nil || len(found) != 0 {
			t.Errorf("%s: %v %v", at, found, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "4242 (a (strange) name) S 1 4200 4100 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 1 18446744073709551615 1"
	got, err := parseStat([]byte(line))
	if want := (procStat{State: 'S', Parent: 1, Group: 4200, Start: 987654}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", strings.Replace(line, "987654", "soon", 1), strings.Replace(line, "4200", "-", 1)} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q parsed to %+v", bad, got)
		}
	}
}
