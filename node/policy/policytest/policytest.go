// Package policytest gives tests real engines and tiny models. All tests of a package share the engines, because
// importing torch is most of a small test's cost. Of this module it imports only policy.
package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/policy"
)

// Shape of the tiny model: a GPT-2 with one id per byte and the end token.
const (
	Vocabulary = 257
	EOS        = 256
	Context    = 256
)

// Lab holds a test package's engines and files. The zero value is ready. Close it in TestMain.
type Lab struct {
	mu      sync.Mutex
	dir     string
	options policy.Options
	failure error
	engines []*policy.Engine
	host    *policy.Host
}

// Options returns the options of an engine that logs to this process's stderr. It skips the test if no Python has
// torch.
func (l *Lab) Options(t testing.TB) policy.Options {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open(t)
}

// Engines returns the first n shared engines. They may still hold another test's model.
func (l *Lab) Engines(t testing.TB, n int) []*policy.Engine {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	options := l.open(t)
	started := make([]error, n)
	var wg sync.WaitGroup
	have := len(l.engines)
	l.engines = append(l.engines, make([]*policy.Engine, max(0, n-have))...)
	for i := have; i < n; i++ {
		wg.Go(func() { l.engines[i], started[i] = policy.Start(context.Background(), options) })
	}
	wg.Wait()
	for _, err := range started {
		if err != nil {
			t.Fatal(err)
		}
	}
	return l.engines[:n:n]
}

func (l *Lab) open(t testing.TB) policy.Options {
	t.Helper()
	if l.dir == "" {
		l.options, l.failure = l.prepare()
	}
	if errors.Is(l.failure, policy.ErrNoPython) {
		t.Skip(l.failure)
	}
	if l.failure != nil {
		t.Fatal(l.failure)
	}
	return l.options
}

func (l *Lab) prepare() (policy.Options, error) {
	var err error
	if l.dir, err = os.MkdirTemp("", "swarm-policytest-"); err != nil {
		return policy.Options{}, err
	}
	dir, err := policy.Extract(l.dir)
	if err != nil {
		return policy.Options{}, err
	}
	host, python, err := Host(dir)
	if err != nil {
		return policy.Options{}, err
	}
	l.host = host
	return policy.Options{
		Python: python.Path, Dir: dir, Stderr: os.Stderr, Host: &host.HostClient,
		Env: append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"),
	}, nil
}

// Host starts an engine host with the first Python that has torch, for this process and its children. dir is the
// folder from Extract.
func Host(dir string) (*policy.Host, policy.Probe, error) {
	var host *policy.Host
	python, _, err := policy.FindPython(context.Background(), "", dir, os.Getenv, func(ctx context.Context, path string) policy.Probe {
		var err error
		if host, err = policy.StartHost(ctx, policy.HostOptions{Python: path, Dir: dir, Env: os.Environ(), Stderr: os.Stderr}); err != nil {
			return policy.Probe{Path: path, Err: err.Error()}
		}
		return policy.Probe{Path: path, Torch: host.Hello.Torch, CUDA: host.Hello.CUDA}
	})
	if err != nil {
		return nil, policy.Probe{}, err
	}
	return host, python, host.Leave()
}

// HostPID is the process id of the host that forks the engines of Options.
func (l *Lab) HostPID() int { return l.host.Hello.PID }

// Close ends the engines and removes the files.
func (l *Lab) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, engine := range l.engines {
		if engine != nil {
			engine.Close()
		}
	}
	l.host.Close()
	os.RemoveAll(l.dir)
}

// Config writes the tiny model's config.json, as LoadParams.RandomInit needs it, into a folder of the test.
func Config(t testing.TB) string {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"}, "n_layer": 2, "n_head": 2, "n_embd": 32,
		"n_positions": Context, "n_ctx": Context, "vocab_size": Vocabulary, "layer_norm_epsilon": 1e-5,
		"activation_function": "gelu_new", "tie_word_embeddings": true, "bos_token_id": EOS, "eos_token_id": EOS,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Load loads a model on one CPU thread. A folder without weights gives random ones from seed.
func Load(t testing.TB, engine *policy.Engine, dir string, seed int64) policy.LoadResult {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	loaded, err := engine.Load(t.Context(), policy.LoadParams{
		ModelDir: dir, RandomInit: err != nil, Seed: seed, Device: "cpu", Precision: "fp32", Threads: 1,
		AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEpsilon: 1e-8, SelfTest: true,
	})
	if err != nil {
		t.Fatal(fmt.Errorf("load the tiny model: %w", err))
	}
	return loaded
}

// Gone waits until no live process of a group is left.
func Gone(t testing.TB, group int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := members(group)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes of group %d are left: %v", group, left)
		}
	}
}

func members(group int) []string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var left []string
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// Format: pid (name) state ppid pgrp. The name may contain any characters.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			left = append(left, string(data))
		}
	}
	return left
}

// Hash returns the hash of the engine's weights.
func Hash(t testing.TB, engine *policy.Engine) string {
	t.Helper()
	saved, err := engine.Save(t.Context(), policy.SaveParams{Path: filepath.Join(t.TempDir(), "weights"), Format: "checkpoint"})
	if err != nil {
		t.Fatal(err)
	}
	return saved.WeightHash
}
