package policy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

// ownHost starts a host for one test, and returns it, the options of its engines and its log.
func ownHost(t *testing.T) (*policy.Host, policy.Options, func() string) {
	t.Helper()
	options := lab.Options(t)
	var mu sync.Mutex
	var log bytes.Buffer
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	host, err := policy.StartHost(t.Context(), policy.HostOptions{
		Python: options.Python, Dir: options.Dir, Env: options.Env, Stderr: os.Stderr,
	})
	require.NoError(t, err)
	host.Watch(slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)), func(int) {})
	t.Cleanup(host.Close)
	options.Host = &host.HostClient
	return host, options, text
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func start(t *testing.T, options policy.Options) *policy.Engine {
	t.Helper()
	engine, err := policy.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	return engine
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 10*time.Millisecond, what)
}

// stateOf is the letter of /proc/PID/stat, 0 if there is no such process.
func stateOf(pid int) byte {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	return bytes.TrimLeft(data[bytes.LastIndexByte(data, ')')+1:], " ")[0]
}

func TestForkedEngineComputesTheSameBits(t *testing.T) {
	_, options, _ := ownHost(t)
	forked := start(t, options)
	require.Empty(t, forked.Direct)
	options.Host = nil
	direct := start(t, options)
	require.NotEmpty(t, direct.Direct)
	var hashes []string
	var results []policy.GenerateResult
	for _, engine := range []*policy.Engine{forked, direct} {
		policytest.Load(t, engine, policytest.Config(t), 7)
		generated, err := engine.Generate(t.Context(), sample(1))
		require.NoError(t, err)
		_, err = engine.Update(t.Context(), learn(generated))
		require.NoError(t, err)
		results, hashes = append(results, generated), append(hashes, policytest.Hash(t, engine))
	}
	require.Equal(t, results[1].Completions, results[0].Completions)
	require.Equal(t, results[1].Logprobs, results[0].Logprobs)
	require.Equal(t, hashes[1], hashes[0])
}

func TestForkedEngineIsItsOwnersAlone(t *testing.T) {
	host, options, _ := ownHost(t)
	first, second := start(t, options), start(t, options)
	for _, engine := range []*policy.Engine{first, second} {
		group, err := syscall.Getpgid(engine.PID())
		require.NoError(t, err)
		require.Equal(t, engine.PID(), group, "a process group of its own")
		command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(engine.PID()), "cmdline"))
		require.NoError(t, err)
		require.Contains(t, string(command), "engine")
		require.NotContains(t, string(command), "--host")
	}
	first.Close() // the second must not hold the first one's pipes
	policytest.Gone(t, first.PID())
	host.Close()
	policytest.Load(t, second, policytest.Config(t), 1) // continues without a host
	second.Close()
	policytest.Gone(t, second.PID())
}

func TestForkedEnginesEndIsTold(t *testing.T) {
	_, options, _ := ownHost(t)
	engine := start(t, options)
	require.NoError(t, syscall.Kill(engine.PID(), syscall.SIGKILL))
	err := engine.Call(t.Context(), "memory", struct{}{}, nil)
	require.ErrorIs(t, err, policy.ErrEngineGone)
	var exit *policy.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, syscall.SIGKILL, exit.Status.Signal())

	engine = start(t, options)
	require.NoError(t, engine.Call(t.Context(), "exit", struct{}{}, nil))
	eventually(t, "the host reaps it", func() bool { engine.Close(); return stateOf(engine.PID()) == 0 })
}

func TestEnginesOutliveAKilledHost(t *testing.T) {
	host, options, log := ownHost(t)
	engine := start(t, options)
	require.NoError(t, syscall.Kill(host.Hello.PID, syscall.SIGKILL))
	eventually(t, "the end of the host is noticed", func() bool { return strings.Contains(log(), "has died") })
	policytest.Load(t, engine, policytest.Config(t), 1)

	began := time.Now()
	direct := start(t, options) // at once, although no host answers
	require.NotEmpty(t, direct.Direct)
	require.Less(t, time.Since(began), 30*time.Second)

	eventually(t, "another host stands", func() bool { return strings.Contains(log(), "another engine host") })
	require.Empty(t, start(t, options).Direct)

	require.NoError(t, syscall.Kill(engine.PID(), syscall.SIGKILL))
	err := engine.Call(t.Context(), "memory", struct{}{}, nil)
	require.ErrorIs(t, err, policy.ErrEngineGone)
	var exit *policy.ExitError
	require.ErrorAs(t, err, &exit)
	require.True(t, exit.Unknown)
}

func TestAStoppedHostIsWoken(t *testing.T) {
	host, options, log := ownHost(t)
	engine := start(t, options)
	require.NoError(t, syscall.Kill(host.Hello.PID, syscall.SIGSTOP))
	eventually(t, "it is stopped", func() bool { return stateOf(host.Hello.PID) == 'T' })
	direct := start(t, options)
	require.NotEmpty(t, direct.Direct)
	engine.Close() // an engine's end does not wait for the host either
	eventually(t, "the host is resumed", func() bool { return strings.Contains(log(), "resumed it") })
	forked := start(t, options) // forked after the request that the stopped host did not answer in time
	require.Empty(t, forked.Direct)
	eventually(t, "nothing reads the direct engine's requests but itself", func() bool {
		return slices.Equal(childrenOf(t, host.Hello.PID), []int{forked.PID()})
	})
	policytest.Load(t, direct, policytest.Config(t), 1)
}

// childrenOf returns the pids of a process's running children.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	for _, field := range strings.Fields(string(data)) {
		child, err := strconv.Atoi(field)
		require.NoError(t, err)
		if state := stateOf(child); state != 0 && state != 'Z' {
			pids = append(pids, child)
		}
	}
	return pids
}

func TestAnEngineOfOtherSettingsStartsDirectly(t *testing.T) {
	_, options, _ := ownHost(t)
	for _, variable := range []string{"OPENBLAS_CORETYPE=Nehalem", "MKL_CBWR=AVX2", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64", "OMP_NUM_THREADS=many"} {
		t.Run(variable, func(t *testing.T) {
			other := options
			other.Env = append(other.Env[:len(other.Env):len(other.Env)], variable)
			name, _, _ := strings.Cut(variable, "=")
			require.Contains(t, start(t, other).Direct, name)
		})
	}
	other := options
	other.Env = append(other.Env[:len(other.Env):len(other.Env)], "OMP_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2", "CUDA_VISIBLE_DEVICES=", "SOMETHING=else")
	require.Empty(t, start(t, other).Direct)
}

func TestHostNeedsTorch(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "python3")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\necho 'ModuleNotFoundError: No module named torch' >&2\nexit 1\n"), 0o755))
	_, err := policy.StartHost(t.Context(), policy.HostOptions{Python: python, Dir: dir})
	require.ErrorContains(t, err, "No module named torch")

	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	_, err = policy.StartHost(ctx, policy.HostOptions{Python: python, Dir: dir})
	require.ErrorContains(t, err, "enough")
}

func TestNoHostIsInheritedFromAStrangeDescriptor(t *testing.T) {
	require.Nil(t, policy.InheritHost(nil))
	for _, value := range []string{"", "3", "x:1", "0:1", "3:1", "99:1", "-1:2"} {
		require.Nil(t, policy.InheritHost([]string{policy.HostVariable + "=" + value}), value)
	}
}

func TestHostDescribesItself(t *testing.T) {
	host, options, _ := ownHost(t)
	hello, err := host.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, host.Hello.Torch, hello.Torch)
	require.Equal(t, options.Python, hello.Python)
	require.Equal(t, options.Dir, hello.Package)

	files, variable := host.Share(int(3))
	require.Len(t, files, 1)
	require.Contains(t, variable, policy.HostVariable+"=3:")
}

// BenchmarkStart measures the time from the request for an engine to its hello: forked by a host, and as a process
// that imports torch.
func BenchmarkStart(b *testing.B) {
	options := lab.Options(b)
	direct := options
	direct.Host = nil
	for name, options := range map[string]policy.Options{"forked": options, "direct": direct} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				engine, err := policy.Start(b.Context(), options)
				require.NoError(b, err)
				require.Equal(b, name == "direct", engine.Direct != "")
				b.StopTimer()
				engine.Close()
				b.StartTimer()
			}
		})
	}
}
