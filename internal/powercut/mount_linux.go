package powercut

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// mountPoint is set in the copy of a test binary that serves a file system. A process that both served and used it
// could deadlock.
const mountPoint = "SWARM_POWERCUT_MOUNT"

// serverPatience bounds the wait for each answer of a server.
const serverPatience = time.Minute

// Serve serves a file system until stdin closes, and exits, in a process that Mount has started. In any other
// process it returns at once. If a package calls Mount, its TestMain starts with Serve.
func Serve() {
	dir := os.Getenv(mountPoint)
	if dir == "" {
		return
	}
	if err := serve(dir); err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}

func serve(dir string) error {
	s := &system{nodes: root}
	second := time.Second
	server, err := fusefs.Mount(dir, &node{system: s, id: root, mode: syscall.S_IFDIR | 0o700}, &fusefs.Options{
		EntryTimeout: &second, AttrTimeout: &second,
		MountOptions: fuse.MountOptions{FsName: "powercut", Name: "powercut", DirectMount: true, DisableXAttrs: true, MaxWrite: 1 << 20},
	})
	if err != nil {
		return err
	}
	fmt.Println("ok")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(s.command(lines.Text()))
	}
	_ = syscall.Unmount(dir, syscall.MNT_DETACH) // later uses of the file system fail
	return server.Unmount()
}

// command answers one line of input.
func (s *system) command(line string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, argument, _ := strings.Cut(line, " ")
	switch verb {
	case "now":
		return strconv.Itoa(len(s.log.Changes))
	case "dump":
		if err := s.log.write(argument); err != nil {
			return "error: " + err.Error()
		}
	case "fail":
		s.fail, _ = strconv.Atoi(argument)
	}
	return "ok"
}

// FS is a file system mounted at Dir.
type FS struct {
	Dir     string
	command *exec.Cmd
	in      *os.File
	answers chan string
	once    sync.Once
}

// Mount mounts an empty file system until the test ends. It skips the test if the kernel or the user's rights don't
// allow mounting.
func Mount(t testing.TB) *FS {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here, so that no power cut can be tested: ", err)
	}
	in, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &FS{Dir: t.TempDir(), in: ours, answers: make(chan string, 1)}
	f.command = exec.Command(os.Args[0])
	f.command.Env = append(os.Environ(), mountPoint+"="+f.Dir)
	f.command.Stdin, f.command.Stderr = in, os.Stderr
	out, err := f.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.command.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	go func() {
		defer close(f.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.answers <- lines.Text()
		}
	}()
	t.Cleanup(f.Unmount)
	if answer, err := f.answer(); err != nil || answer != "ok" {
		t.Skip("no FUSE here, so that no power cut can be tested: ", answer, err)
	}
	return f
}

// end unmounts the file system and ends its server. It kills a server that does not end within 10 s.
func (f *FS) end() {
	f.in.Close()
	timer := time.AfterFunc(10*time.Second, func() {
		_ = syscall.Unmount(f.Dir, syscall.MNT_DETACH)
		_ = f.command.Process.Kill()
	})
	defer timer.Stop()
	for range f.answers { // until the server closes its stdout
	}
	_ = f.command.Wait()
}

func (f *FS) answer() (string, error) {
	select {
	case answer, ok := <-f.answers:
		if !ok {
			return "", fmt.Errorf("the file system's server has ended")
		}
		return answer, nil
	case <-time.After(serverPatience):
		return "", fmt.Errorf("the file system's server doesn't answer")
	}
}

func (f *FS) ask(t testing.TB, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(f.in, line); err != nil {
		t.Fatal(err)
	}
	answer, err := f.answer()
	if err != nil || strings.HasPrefix(answer, "error") {
		t.Fatal("file system: ", answer, err)
	}
	return answer
}

// Now returns how many changes and syncs have happened. They include everything that a system call has confirmed.
func (f *FS) Now(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(f.ask(t, "now"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FailSyncs makes the next n syncs of files fail. Their data never reaches the disk.
func (f *FS) FailSyncs(t testing.TB, n int) {
	t.Helper()
	f.ask(t, "fail "+strconv.Itoa(n))
}

// Log returns everything that has happened so far.
func (f *FS) Log(t testing.TB) Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	f.ask(t, "dump "+path)
	log, err := readLog(path)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// Fill copies a folder's files into the file system and syncs them, as the state after the power came back.
func (f *FS) Fill(t testing.TB, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(f.Dir, name)
		switch {
		case name == ".":
			return nil
		case entry.IsDir():
			return os.Mkdir(to, 0o700)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, info.Mode().Perm())
	})
	if err == nil {
		err = filepath.WalkDir(f.Dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
				return err
			}
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			return file.Sync()
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Unmount ends the file system before the test ends.
func (f *FS) Unmount() { f.once.Do(f.end) }
