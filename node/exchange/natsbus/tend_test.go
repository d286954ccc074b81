package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/node/exchange"
)

// journals are the nodes' own records of their shared batches.
type journals struct {
	mu      sync.Mutex
	batches map[string][]byte
	finds   map[string]int // by node and round
}

func journalKey(node string, round int) string { return fmt.Sprintf("%s/%d", node, round) }

// share journals a batch and publishes it, like a node.
func (j *journals) share(t *testing.T, bus *Bus, b exchange.Batch) {
	t.Helper()
	j.record(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	if err := bus.Publish(ctx, b); err != nil {
		t.Fatal(err)
	}
}

func (j *journals) record(t *testing.T, b exchange.Batch) {
	t.Helper()
	data, err := exchange.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	j.plant(b.Node, b.Round, data)
}

func (j *journals) plant(node string, round int, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.batches == nil {
		j.batches = map[string][]byte{}
	}
	j.batches[journalKey(node, round)] = data
}

func (j *journals) find(node string, round int) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.finds == nil {
		j.finds = map[string]int{}
	}
	j.finds[journalKey(node, round)]++
	return j.batches[journalKey(node, round)], nil
}

func (j *journals) found(node string, round int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finds[journalKey(node, round)]
}

// tend runs Tend for a run until the test ends.
func tend(t *testing.T, server *Server, run string, j *journals, nodes ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Tend(ctx, run, nodes, j.find) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("tend: %v", err)
			}
		case <-time.After(soon):
			t.Error("tend does not end with its context")
		}
	})
}

// shared gathers with a long deadline and returns the marks.
func shared(t *testing.T, bus *Bus, round int, peers ...string) string {
	t.Helper()
	got, err := bus.Gather(t.Context(), round, peers, exchange.Barrier{Deadline: 2 * soon, Quorum: len(peers), Limit: 2 * soon})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range got {
		if r.Rejected != "" {
			t.Fatalf("%s: %s", r.Node, r.Rejected)
		}
		text += r.Rollouts[0].Question
	}
	return text
}

// Batches that a stream has lost are restored from the journals, for nodes that have ended and for rounds that
// retention dropped.
func TestLostRolloutsComeBack(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *Server){
		"stream deleted": func(t *testing.T, s *Server) {
			if err := s.DeleteStream(t.Context(), "run"); err != nil {
				t.Fatal(err)
			}
		},
		"rounds dropped": func(t *testing.T, s *Server) {
			if err := s.Purge(t.Context(), "run", 1); err != nil {
				t.Fatal(err)
			}
		},
		"folder wiped": func(t *testing.T, s *Server) {
			if err := os.RemoveAll(filepath.Join(s.options.StoreDir, "jetstream")); err != nil {
				t.Fatal(err)
			}
			// Only a check detects the loss. Until then a Gather may still succeed.
			awaitFolder(t, s, "run")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t, ServerOptions{Dir: filepath.Join(t.TempDir(), "exchange")})
			createRun(t, server, "run")
			var j journals
			tend(t, server, "run", &j, "a", "b", "c")
			a, b, c := join(t, server, "run", "a"), join(t, server, "run", "b"), join(t, server, "run", "c")
			j.share(t, a, batch("a", 0, "a0"))
			j.share(t, b, batch("b", 0, "b0"))
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			lose(t, server)
			if got := shared(t, c, 0, "a", "b"); got != "a0b0" {
				t.Errorf("found %q", got)
			}
			j.share(t, b, batch("b", 1, "b1"))
			j.share(t, b, batch("b", 0, "again")) // the first batch wins, also from the journal
			if got := shared(t, c, 1, "b") + shared(t, c, 0, "b"); got != "b1b0" {
				t.Errorf("after it found %q", got)
			}
		})
	}
}

func awaitFolder(t *testing.T, s *Server, run string) {
	t.Helper()
	s.mu.Lock()
	folder := s.folders[run]
	s.mu.Unlock()
	if folder == "" {
		t.Fatal("the stream's folder isn't known: JetStream's layout has changed")
	}
	await(t, "the stream's folder", func() bool {
		_, err := os.Stat(folder)
		return err == nil
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > soon {
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}

// After a full disk has space again, batches that were refused and batches from before are available.
func TestFullDisk(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	var log lockedBuffer
	server := startServer(t, ServerOptions{Dir: filepath.Join(dir, "exchange"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	createRun(t, server, "run")
	var j journals
	tend(t, server, "run", &j, "a", "b")
	a, b := join(t, server, "run", "a"), join(t, server, "run", "b")
	j.share(t, a, batch("a", 0, "before"))
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk isn't full")
	}
	published := make(chan error, 1)
	meanwhile := strings.Repeat("m", 32<<10)
	j.record(t, batch("a", 1, meanwhile))
	go func() { published <- a.Publish(t.Context(), batch("a", 1, meanwhile)) }()
	await(t, "the fault", func() bool { return strings.Contains(log.String(), "does not work") })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ballast, make([]byte, 256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-published:
		if err != nil {
			t.Errorf("publish over a full disk: %v", err)
		}
	case <-time.After(3 * soon):
		t.Fatalf("the publish hangs; the log:\n%s", log.String())
	}
	if got := shared(t, b, 0, "a") + shared(t, b, 1, "a"); got != "before"+meanwhile {
		t.Errorf("found %.20q", got)
	}
}

// The broker logs the name of a user that it does not know. Such a name can look like an error of the stream.
func TestStrangersCannotReportADamage(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	server := startServer(t, ServerOptions{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	createRun(t, server, "run")
	var j journals
	tend(t, server, "run", &j, "a")
	j.share(t, join(t, server, "run", "a"), batch("a", 0, "a0"))
	for range 20 {
		for _, user := range []string{"maximum messages per subject", "maximum bytes", unreadable + "x"} {
			if _, err := nats.Connect(server.URL(), nats.UserInfo(user, "x"), nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
				t.Fatal(err)
			}
		}
	}
	await(t, "the broker's line", func() bool { return strings.Contains(log.String(), "authentication error") })
	time.Sleep(complainEvery) // a check comes within half of it
	if text := log.String(); strings.Contains(text, "creating it again") || strings.Contains(text, "is full") {
		t.Errorf("a stranger's name counts as an error:\n%s", text)
	}
	if lines := strings.Count(log.String(), "authentication error"); lines > 20 {
		t.Errorf("60 failed logins make %d lines", lines)
	}
}

// A stream that has reached its size limit drops its older half, which the journals have.
func TestFullStreamIsTrimmed(t *testing.T) {
	t.Parallel()
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	var j journals
	tend(t, server, "run", &j, "a", "b")
	a, b := join(t, server, "run", "a"), join(t, server, "run", "b")
	small := streamConfig(a.subjects)
	small.MaxBytes = 32 << 10
	if _, err := server.js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		j.share(t, a, batch("a", round, fmt.Sprint(round)+strings.Repeat("x", 4<<10)))
	}
	for _, round := range []int{0, 5, 11} {
		if got := shared(t, b, round, "a"); !strings.HasPrefix(got, fmt.Sprint(round)+"x") {
			t.Errorf("round %d: found %.10q", round, got)
		}
	}
}

// Whatever the folder contains, the bus starts, and the journals fill it again.
func TestDamagedStore(t *testing.T) {
	overwrite := func(pattern string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			changed := 0
			err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if ok, _ := filepath.Match(pattern, filepath.Base(path)); err != nil || !ok || entry.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				changed++
				return os.WriteFile(path, change(data), 0o600)
			})
			if err != nil || changed == 0 {
				t.Fatalf("%d files of %s changed: %v", changed, pattern, err)
			}
		}
	}
	garbage := func(data []byte) []byte { return bytes.Repeat([]byte{0xA5}, len(data)) }
	half := func(data []byte) []byte { return data[:len(data)/2] }
	flip := func(data []byte) []byte { data[len(data)/2] ^= 0x10; return data }
	none := func([]byte) []byte { return nil }
	for name, damage := range map[string]func(*testing.T, string){
		"block of garbage":   overwrite("*.blk", garbage),
		"block cut":          overwrite("*.blk", half),
		"block bit flipped":  overwrite("*.blk", flip),
		"block empty":        overwrite("*.blk", none),
		"meta of garbage":    overwrite("meta.inf", garbage),
		"meta cut":           overwrite("meta.inf", half),
		"meta empty":         overwrite("meta.inf", none),
		"checksum cut":       overwrite("meta.sum", half),
		"index of garbage":   overwrite("index.db", garbage),
		"everything garbage": overwrite("*", garbage),
		"everything cut":     overwrite("*", half),
		"folder is a file": func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "jetstream"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"stream is a file": func(t *testing.T, dir string) {
			found, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*"))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if err := os.RemoveAll(found[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(found[0], []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "exchange")
			var j journals
			first := startServer(t, ServerOptions{Dir: dir})
			createRun(t, first, "run")
			a := join(t, first, "run", "a")
			for round := range 3 {
				j.share(t, a, batch("a", round, fmt.Sprint("a", round, strings.Repeat("-", 500))))
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			first.Shutdown()
			damage(t, dir)
			second := startServer(t, ServerOptions{Dir: dir})
			createRun(t, second, "run")
			tend(t, second, "run", &j, "a", "b")
			b := join(t, second, "run", "b")
			for round := range 3 {
				if got := shared(t, b, round, "a"); !strings.HasPrefix(got, fmt.Sprint("a", round, "-")) {
					t.Errorf("round %d: found %.10q", round, got)
				}
			}
			j.share(t, b, batch("b", 3, "b3"))
			if _, err := os.Stat(dir + ".damaged"); err == nil {
				t.Error("the damaged store was left behind")
			}
		})
	}
}

// Wrong permissions in the store don't keep the bus from starting. Root is not subject to permissions.
func TestUnreadableStore(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	for _, path := range []string{"", "jetstream", "jetstream/$G", "jetstream/$G/streams/swarm-run/msgs", "jetstream/$G/streams/swarm-run/meta.inf"} {
		dir := filepath.Join(t.TempDir(), "exchange")
		var j journals
		first := startServer(t, ServerOptions{Dir: dir})
		createRun(t, first, "run")
		j.share(t, join(t, first, "run", "a"), batch("a", 0, "a0"))
		first.Shutdown()
		if err := os.Chmod(filepath.Join(dir, path), 0); err != nil {
			t.Fatal(err)
		}
		second := startServer(t, ServerOptions{Dir: dir})
		createRun(t, second, "run")
		tend(t, second, "run", &j, "a", "b")
		if got := shared(t, join(t, second, "run", "b"), 0, "a"); got != "a0" {
			t.Errorf("%q unreadable: found %q", path, got)
		}
		second.Shutdown()
	}
}

// The archive serves only checked batches of the run's own nodes, and looks each up at most once per wantEvery.
func TestArchiveIsCareful(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	var j journals
	j.record(t, batch("a", 0, "a0"))
	j.plant("a", 1, []byte(`{"version":1,"node":"a","round":7,"rollouts":[]}`)) // of another round
	j.plant("../x", 0, []byte(`{}`))
	tend(t, server, "run", &j, "a", "b")
	conn, err := nats.Connect(server.URL(), nats.Token(server.Token()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(subject string) {
		if err := conn.Publish("swarm.run.want."+subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for range 1000 {
		ask("0.a")
	}
	b := join(t, server, "run", "b")
	if got := shared(t, b, 0, "a"); got != "a0" {
		t.Errorf("found %q", got)
	}
	// The queue is bounded. Dropped requests are repeated.
	await(t, "the bad batch to be looked up", func() bool {
		for _, subject := range []string{"0.=2E=2E=2Fx", "-1.a", "x.a", "0.b", "99999999999999999999.a", "1.a"} {
			ask(subject)
		}
		return j.found("a", 1) > 0
	})
	if got := marks(t, b, 1, "a")[0]; got != "" {
		t.Errorf("a batch that is signed as another round's is served: %q", got)
	}
	if j.found("../x", 0) > 0 {
		t.Error("a stranger's node was looked up")
	}
	if n, most := j.found("a", 0), 2+int(time.Since(begin)/wantEvery); n > most {
		t.Errorf("1000 wants made %d lookups, more than %d", n, most)
	}
}

// A batch that is about to be shared is not requested, and repeated requests become rarer.
func TestWantsBackOff(t *testing.T) {
	begin := time.Unix(0, 0)
	asking := wants{at: begin.Add(firstWant), next: secondWant}
	var at []float64
	for now := begin; now.Sub(begin) < 100*time.Second; now = now.Add(100 * time.Millisecond) {
		if asking.due(now) {
			at = append(at, now.Sub(begin).Seconds())
		}
	}
	if got := fmt.Sprint(at); got != "[1 3 7 15 31 61 91]" {
		t.Errorf("asked at %s s", got)
	}
}

// A repair keeps the server's address and clients, and leaves no probe in the stream.
func TestRestartedStore(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: filepath.Join(t.TempDir(), "exchange")})
	createRun(t, server, "run")
	url := server.URL()
	a := join(t, server, "run", "a")
	publish(t, a, batch("a", 0, "lost"))
	server.healing.Lock()
	err := server.restart(t.Context())
	server.healing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if server.URL() != url {
		t.Errorf("moved from %s to %s", url, server.URL())
	}
	await(t, "the stream", func() bool { return server.CreateStream(t.Context(), "run") == nil })
	publish(t, a, batch("a", 0, "first of the new one"))
	if got := marks(t, a, 0, "a")[0]; got != "first of the new one" {
		t.Errorf("found %q", got)
	}
	stream, err := server.js.Stream(t.Context(), a.subjects.stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil || info.State.Msgs != 1 || len(info.State.Subjects) != 1 {
		t.Errorf("the stream holds %+v: %v", info, err)
	}
}

// Repairs leak no goroutine, descriptor or folder.
func TestRepairsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, ServerOptions{Dir: filepath.Join(dir, "exchange")})
	createRun(t, server, "run")
	a := join(t, server, "run", "a")
	repair := func() {
		server.healing.Lock()
		err := server.restart(t.Context())
		server.healing.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		createRun(t, server, "run")
		publish(t, a, batch("a", 0, "x"))
	}
	held := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(entries) + runtime.NumGoroutine()
	}
	repair()
	before := held()
	for range 5 {
		repair()
	}
	await(t, fmt.Sprintf("the end of what was more than %d descriptors and goroutines", before), func() bool { return held() <= before+3 })
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the store lies %v: %v", entries, err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
