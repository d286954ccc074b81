package attempt_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/attempt"
)

func TestBinaryOutputPassesUnchanged(t *testing.T) {
	t.Parallel()
	data := make([]byte, 3<<20+17)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(data)
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, nil, "/bin/cat", path)
	if out := r.Wait(); out.ExitCode != 0 {
		t.Fatalf("%+v", out)
	}
	if r.out.String() != string(data) || r.log.String() != string(data) || r.err.String() != "" {
		t.Errorf("%d bytes out, %d in the log, %d of errors; want %d", len(r.out.String()), len(r.log.String()), len(r.err.String()), len(data))
	}
}

func TestOutputComesAtOnceAndEachStreamToItsWriter(t *testing.T) {
	t.Parallel()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	r := begin(t, func(s *attempt.Spec) { s.Stdin = in }, "/bin/sh", "-c", "printf half; read line; echo $line >&2")
	r.said(t, "half") // the line has no end yet
	if _, err := feed.WriteString("whole\n"); err != nil {
		t.Fatal(err)
	}
	if out := r.Wait(); out.ExitCode != 0 || r.err.String() != "whole\n" || r.log.String() != "halfwhole\n" {
		t.Errorf("%+v, errors %q, log %q", out, r.err.String(), r.log.String())
	}
}

func TestMuchOutput(t *testing.T) {
	t.Parallel()
	size := int64(200_000_000)
	if raced {
		size = 20_000_000
	}
	var stdout, log counter
	r := begin(t, func(s *attempt.Spec) { s.Stdout, s.Log = &stdout, &log }, "/usr/bin/head", "-c", strconv.FormatInt(size, 10), "/dev/zero")
	if out := r.Wait(); out.ExitCode != 0 || stdout.n != size || log.n != size {
		t.Errorf("%+v; %d bytes, %d in the log; want %d", out, stdout.n, log.n, size)
	}
}

// slow reads little at a time.
type slow struct{ record }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.record.Write(p)
}

func TestASlowReaderGetsAllOfIt(t *testing.T) {
	t.Parallel()
	var reader slow
	r := begin(t, func(s *attempt.Spec) { s.Stdout = &reader }, "/bin/sh", "-c", "seq 200000; echo end >&2")
	if out := r.Wait(); out.ExitCode != 0 {
		t.Fatalf("%+v", out)
	}
	want, err := exec.Command("seq", "200000").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := reader.String(); got != string(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestAReaderThatLeavesDoesNotEndTheCommand(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	r := begin(t, func(s *attempt.Spec) { s.Stdout = writer }, "/bin/sh", "-c", "seq 100000; exit 7")
	out := r.Wait()
	if out.ExitCode != 7 || !strings.HasSuffix(r.log.String(), "\n100000\n") {
		t.Errorf("%+v; the log ends in %q", out, tail(r.log.String()))
	}
	if warned := r.warned.String(); strings.Count(warned, "\n") != 1 || !strings.Contains(warned, "the reader of") {
		t.Errorf("warned %q", warned)
	}
}

func tail(text string) string { return text[max(0, len(text)-80):] }

func TestALauncherSurvivesItsClosedStdout(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playVariable+"=closed stdout", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout = writer
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v; want the command's exit code 7", err)
	}
}

// stuck blocks each write until the test releases it.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func TestAStuckReaderDoesNotHoldAStopUp(t *testing.T) {
	t.Parallel()
	hold := make(stuck)
	defer close(hold)
	r := begin(t, func(s *attempt.Spec) { s.Stdout, s.Grace = hold, 100*time.Millisecond }, "/bin/sh", "-c", "echo x; echo ready >&2; sleep 1000")
	eventually(t, "it runs", func() bool { return r.err.String() != "" })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if out := r.Wait(); !out.Stopped || !strings.Contains(r.warned.String(), "has stopped reading") {
		t.Errorf("%+v, warned %q", out, r.warned.String())
	}
}

func TestTheScannerReadsWholeLinesThoughStreamsMix(t *testing.T) {
	t.Parallel()
	// Each stream pauses within the line of the shortage.
	r := shell(t, `printf 'RuntimeError: CUDA out of' >&2; sleep 0.1; printf 'loss '; sleep 0.1
		printf ' memory. Tried to allocate 2.00 GiB\n' >&2; echo 0.1; exit 1`)
	out := r.Wait()
	if out.Shortage == nil || out.Shortage.Asked != 2<<30 {
		t.Errorf("%+v, shortage %+v", out, out.Shortage)
	}
}

func TestAPipeThatAStrangerHoldsOpenDoesNotHoldTheEndUp(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The helper is not in the command's process tree. It opens the command's stdout and keeps it open.
	helper := exec.Command("/bin/sh", "-c", `read pid; exec 4>/proc/$pid/fd/1; echo open; read end`)
	helper.Stdin = reader
	opened, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	defer helper.Wait()
	defer writer.Close()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := begin(t, func(s *attempt.Spec) { s.Stdin = in }, "/bin/sh", "-c", "echo $$; read go; echo last")
	writer.WriteString(strings.TrimSpace(r.said(t, "\n")) + "\n")
	if line, err := bufio.NewReader(opened).ReadString('\n'); line != "open\n" {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(feed, "go\n")
	if out := r.Wait(); out.ExitCode != 0 || !strings.HasSuffix(r.out.String(), "last\n") || len(out.Left) != 0 {
		t.Errorf("%+v, %q", out, r.out.String())
	}
}

func TestALogThatRefusesStopsNothing(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	r := begin(t, func(s *attempt.Spec) { s.Log = writer }, "/usr/bin/seq", "50000")
	out := r.Wait()
	hash := sha256.New()
	for i := range 50000 {
		hash.Write(line(i + 1))
	}
	got := sha256.Sum256([]byte(r.out.String()))
	if out.ExitCode != 0 || !bytes.Equal(got[:], hash.Sum(nil)) {
		t.Errorf("%+v, %d bytes", out, len(r.out.String()))
	}
}
