package supervise

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// contained is set in the copy of the test binary that sweeps a folder from a PID namespace of its own.
const contained = "SUPERVISE_TEST_CONTAINED"

// sweepContained sweeps while it sees only its own namespace's processes, as in a container, and prints what it
// ended.
func sweepContained(dir string) {
	err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, "")
	if err == nil {
		err = syscall.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Println("no namespace:", err)
		os.Exit(0)
	}
	orphans, err := SweepOrphans(context.Background(), dir, time.Millisecond)
	fmt.Println("swept", len(orphans), err)
	os.Exit(0)
}

// A sweep in a container that shares the home with the host's launcher keeps the pid files of the host's processes.
func TestSweepInAnotherPIDNamespace(t *testing.T) {
	dir := t.TempDir()
	pids, kill := killedLauncher(t, dir, 4)
	defer kill()
	sweep := exec.Command(os.Args[0])
	sweep.Env = append(os.Environ(), contained+"="+dir)
	sweep.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := sweep.Output()
	if err != nil || strings.HasPrefix(string(out), "no namespace") {
		t.Skip("this kernel gives no PID namespace: ", err, string(out))
	}
	if got := strings.TrimSpace(string(out)); got != "swept 0 <nil>" {
		t.Errorf("it says %q", got)
	}
	for _, name := range []string{"good", "stubborn", "deserter"} {
		record, err := readPIDFile(filepath.Join(dir, name, PIDFileName))
		if err != nil || record.Process.PID != pids[name] {
			t.Errorf("%s: %+v %v", name, record, err)
		}
	}
}

// The same without a separate namespace. Also, records from another boot are still removed.
func TestRecordsOfOtherPIDNamespaces(t *testing.T) {
	own, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if own.Namespace == "" {
		t.Skip("this kernel names no PID namespaces")
	}
	foreign := own
	foreign.Namespace, foreign.Start = "pid:[1]", own.Start+1
	rebooted, old := foreign, own
	rebooted.Boot, old.Namespace = "another boot", ""
	if foreign.Alive() || !foreign.Elsewhere() || rebooted.Elsewhere() || own.Elsewhere() || old.Elsewhere() || !old.Alive() || !own.Alive() {
		t.Error("an identity is taken for another")
	}
	for name, c := range map[string]struct {
		record pidFile
		stays  bool
	}{
		"of a container that may live": {pidFile{Process: foreign, Parent: foreign}, true},
		"of another boot":              {pidFile{Process: rebooted, Parent: rebooted}, false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, PIDFileName)
		if err := c.record.write(path); err != nil {
			t.Fatal(err)
		}
		if found, err := SweepOrphans(t.Context(), dir, time.Millisecond); err != nil || len(found) != 0 {
			t.Errorf("%s: %v %v", name, found, err)
		}
		if _, err := os.Stat(path); (err == nil) != c.stays {
			t.Errorf("%s: the file is there: %t", name, err == nil)
		}
	}
}
