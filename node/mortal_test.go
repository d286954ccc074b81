package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// pointVariable names the environment variable with the point, as JSON, where a node's process kills itself.
const pointVariable = "SWARM_TEST_POINT"

// point is where a process ends: before or after it sends an event. A node sends events between all steps of a
// round.
type point struct {
	Type   event.Type  `json:"type"`
	State  event.State `json:"state"` // if the type is state
	Round  int         `json:"round"` // of the state, the report or the checkpoint; -1: any
	Before bool        `json:"before"`
	Engine bool        `json:"engine"` // kill the engine instead of the node
}

func (p point) String() string {
	when, who := "after", "node"
	if p.Before {
		when = "before"
	}
	if p.Engine {
		who = "engine"
	}
	return fmt.Sprintf("%s %s %s%s of round %d", who, when, p.Type, p.State, p.Round)
}

func (p point) reached(e event.Event) bool {
	round := e.RoundIndex
	switch {
	case e.Type != p.Type || e.State != p.State || e.Replayed:
		return false
	case e.Round != nil:
		round = e.Round.Round
	case e.Checkpoint != nil:
		round = e.Checkpoint.Round
	case e.Eval != nil:
		round = e.Eval.Round
	}
	return p.Round < 0 || round == p.Round
}

// lethal is a node's stdout that kills the process at a point.
type lethal struct {
	io.Writer
	point  point
	engine int
}

func (l *lethal) Write(line []byte) (int, error) {
	var e event.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	if e.Loaded != nil {
		l.engine = e.Loaded.EnginePID
	}
	reached := l.point.reached(e)
	if reached && l.point.Before {
		l.kill()
	}
	n, err := l.Writer.Write(line)
	if reached {
		l.kill()
	}
	return n, err
}

func (l *lethal) kill() {
	if l.point.Engine {
		_ = syscall.Kill(l.engine, syscall.SIGKILL)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the kernel's kill
}

// mortal runs a node's process that ends at a point.
func mortal(text string) int {
	var p point
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return Process(context.Background(), os.Stdin, &lethal{Writer: os.Stdout, point: p}, os.Stderr, os.Environ(), logger)
}

// beginMortal starts a node in an operating system process of its own.
func beginMortal(t *testing.T, start protocol.Start, p point) (*nodeProcess, *exec.Cmd) {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pointVariable+"="+string(text))
	var log bytes.Buffer
	cmd.Stderr = &log
	stdin, in := io.Pipe()
	commands, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go func() {
		_, _ = io.Copy(commands, stdin)
		commands.Close()
	}()
	l := &nodeProcess{t: t, in: in, send: event.NewWriter(in), exit: make(chan int, 1), wait: 2 * soon, read: make(chan struct{}), more: make(chan struct{})}
	go l.listen(event.NewReader(stdout, event.MaxLine))
	go func() {
		<-l.read
		err := cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %v\n%s", p, err, log.String())
		}
		stdin.Close()
		l.exit <- cmd.ProcessState.ExitCode()
	}()
	require.NoError(t, l.send.Write(protocol.Command{Type: protocol.CommandStart, Start: &start}))
	return l, cmd
}

// dies waits for the end of a process and returns its exit code, -1 for a signal.
func (l *nodeProcess) dies() int {
	l.t.Helper()
	select {
	case code := <-l.exit:
		<-l.read
		return code
	case <-time.After(l.wait):
		l.t.Fatal("the process does not end")
		return 0
	}
}
