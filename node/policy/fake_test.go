package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

// greet is a fake engine's answer to hello.
const greet = `read -r line; echo '{"id":1,"result":{"protocol":6}}'` + "\n"

// fake makes an engine from a shell script, which writes its pid to the returned file.
func fake(t *testing.T, script string) (policy.Options, string) {
	t.Helper()
	dir := t.TempDir()
	path, pidFile := filepath.Join(dir, "engine.sh"), filepath.Join(dir, "pid")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >%s\n%s", pidFile, script)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return policy.Options{Python: path, Dir: dir, Env: os.Environ(), Stderr: io.Discard}, pidFile
}

func startFake(t *testing.T, script string) *policy.Engine {
	t.Helper()
	options, _ := fake(t, script)
	engine, err := policy.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		engine.Close()
		policytest.Gone(t, engine.PID())
	})
	return engine
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	return pid
}

// An engine that does not start properly gives an error, and no process remains.
func TestStartFails(t *testing.T) {
	cases := []struct {
		name, script string
		limit        time.Duration
		want         error
		says         string
	}{
		{"it never answers", "exec sleep 60", 300 * time.Millisecond, context.DeadlineExceeded, "greet the engine"},
		{"it leaves", "echo oops >&2; exit 3", time.Minute, policy.ErrEngineGone, "exit status 3"},
		{"it talks", "echo hello there; exec sleep 60", time.Minute, policy.ErrProtocol, `"hello there`},
		{"it speaks another version", `echo '{"id":1,"result":{"protocol":2}}'; read -r line; read -r line`, time.Minute, policy.ErrProtocol, "version 2"},
		{"it answers nothing", `echo '{"id":1}'; exec sleep 60`, time.Minute, policy.ErrProtocol, "greet the engine"},
		{"it refuses", `echo '{"id":1,"error":{"kind":"bad_request","message":"protocol 1 is old"}}'; read -r line; read -r line`, time.Minute, nil, "protocol 1 is old"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			options, pidFile := fake(t, c.script)
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			_, err := policy.Start(ctx, options)
			require.ErrorContains(t, err, c.says)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			policytest.Gone(t, readPID(t, pidFile))
		})
	}
	t.Run("there is no such program", func(t *testing.T) {
		_, err := policy.Start(t.Context(), policy.Options{Python: "/no/such/python", Dir: t.TempDir()})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// An engine that ends or sends invalid output during a call fails that call, and every later one.
func TestCallFails(t *testing.T) {
	cases := []struct {
		name, script string
		want         error
		says         string
	}{
		{"it is killed", "read -r line; kill -9 $$", policy.ErrEngineGone, "signal: killed"},
		{"it crashes", "read -r line; kill -SEGV $$", policy.ErrEngineGone, "signal: segmentation fault"},
		{"it exits", "read -r line; exit 0", policy.ErrEngineGone, "it exited unexpectedly"},
		{"it is gone before the call", "exit 7", policy.ErrEngineGone, "exit status 7"},
		{"garbage", "read -r line; echo '{\"id\":2'; exec sleep 60", policy.ErrProtocol, "its output is not JSON"},
		{"another request's answer", `read -r line; echo '{"id":9,"result":{}}'; exec sleep 60`, policy.ErrProtocol, "answer 9 to request 2"},
		{"one answer too many", `echo '{"id":1,"result":{}}'; exec sleep 60`, policy.ErrProtocol, "answer 1 to request 2"},
		{"a result of another type", `read -r line; echo '{"id":2,"result":[]}'; exec sleep 60`, policy.ErrProtocol, "array"},
		{"a line without end", "read -r line; exec tr '\\0' x </dev/zero", policy.ErrProtocol, "above 67108864 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			engine := startFake(t, greet+c.script)
			_, err := engine.Memory(t.Context())
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "engine call memory")
			_, err = engine.Memory(t.Context())
			require.ErrorIs(t, err, policy.ErrEngineGone)
			require.ErrorContains(t, err, c.says, "the first reason stays")
		})
	}
}

// An engine that answers with the reason for its end, and ends, is gone for the next call, whose error still has
// the reason. The answer itself may have gone to a call whose failure is ignored, such as trim.
func TestAnEngineThatEndsOverAFailure(t *testing.T) {
	engine := startFake(t, greet+`read -r line; echo '{"id":2,"error":{"kind":"internal","message":"an illegal memory access; the engine ends"}}'`)
	_, err := engine.Trim(t.Context())
	var refused *policy.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "an illegal memory access; the engine ends", refused.Message)
	_, err = engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineGone)
	require.ErrorContains(t, err, "it exited unexpectedly, after: engine: an illegal memory access; the engine ends")
	require.False(t, errors.As(err, &refused), "no refusal: there is nobody to ask again")
}

func TestCancelledCallKillsTheEngine(t *testing.T) {
	engine := startFake(t, greet+"read -r line; sleep 60")
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, err := engine.Memory(ctx)
	require.ErrorIs(t, err, why)
	policytest.Gone(t, engine.PID())
	_, err = engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineGone)
	require.ErrorIs(t, err, why)
}

// A call that ends does not wait for a request larger than the pipe.
func TestRequestThatIsNotRead(t *testing.T) {
	large := policy.GenerateParams{Prompts: [][]int{make([]int, 1<<20)}}
	t.Run("and not answered", func(t *testing.T) {
		engine := startFake(t, greet+"exec sleep 60")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := engine.Generate(ctx, large)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("but answered", func(t *testing.T) {
		engine := startFake(t, greet+`echo '{"id":2,"result":{}}'; exec sleep 60`)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _ = engine.Generate(ctx, large)
		_, err := engine.Memory(t.Context())
		require.ErrorIs(t, err, policy.ErrEngineGone)
	})
}

func TestCloseKillsWhatDoesNotLeave(t *testing.T) {
	engine := startFake(t, "trap '' TERM INT HUP\n"+greet+"sleep 60; sleep 60")
	began := time.Now()
	engine.Close()
	require.Less(t, time.Since(began), 8*time.Second)
	policytest.Gone(t, engine.PID())
	engine.Close() // a second call changes nothing
}

// BeforeKill is called before a kill, and otherwise never.
func TestKillsAreAnnounced(t *testing.T) {
	for _, c := range []struct {
		name, script string
		calls        bool
		announced    int
	}{
		{"a call that is cancelled", greet + "exec sleep 60", true, 1},
		{"an answer that makes no sense", greet + "read -r line; echo nonsense; exec sleep 60", true, 1},
		{"one that does not leave", greet + "exec sleep 60", false, 1},
		{"one that leaves", greet + "read -r line", false, 0},
		{"one that is gone already", greet + "exit 1", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			options, _ := fake(t, c.script)
			var told []int
			options.BeforeKill = func(pid int) {
				require.NoError(t, syscall.Kill(pid, 0), "it lives")
				told = append(told, pid)
			}
			engine, err := policy.Start(t.Context(), options)
			require.NoError(t, err)
			if c.calls {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				_, err := engine.Memory(ctx)
				cancel()
				require.Error(t, err)
			}
			engine.Close()
			require.Len(t, told, c.announced)
			for _, pid := range told {
				require.Equal(t, engine.PID(), pid)
			}
			policytest.Gone(t, engine.PID())
		})
	}
}

// A process that the engine left behind delays neither calls nor Close, although it holds the engine's stdout.
func TestEngineLeavesAProcessBehind(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	engine := startFake(t, greet+fmt.Sprintf("read -r line; setsid sleep 60 2>/dev/null & echo $! >%s; exit 1", left))
	t.Cleanup(func() { _ = syscall.Kill(readPID(t, left), syscall.SIGKILL) })
	began := time.Now()
	_, err := engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineGone)
	engine.Close()
	require.Less(t, time.Since(began), 10*time.Second)
}

// A real engine exits by itself when Close closes its stdin.
func TestCloseOfARealEngine(t *testing.T) {
	engine, err := policy.Start(t.Context(), lab.Options(t))
	require.NoError(t, err)
	began := time.Now()
	engine.Close()
	require.Less(t, time.Since(began), 2500*time.Millisecond, "killed only after the grace")
	policytest.Gone(t, engine.PID())
}
