package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// The launcher restarts a node that fails to load its model as often as the engine's error deserves. Only the engine
// is a script.
func TestFailedLoadsAreRestartedByTheirCause(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("swarm")
	require.NoError(t, err)
	config := configs.Default()
	config.Experiment, config.Model = "test", "tiny"
	config.Tasks.Mixture = []configs.TaskSpec{{Name: "basic_arithmetic", Weight: 1}}
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	shortage := func(s policy.Shortage) policy.Error {
		s.Where, s.CapBytes = "device", 9e9
		return policy.Error{Kind: policy.KindOutOfMemory, Message: "CUDA out of memory", Shortage: &s}
	}
	const crowded, usual, once, never = 3, 2, 1, 0
	for name, tt := range map[string]struct {
		answer   policy.Error
		restarts int
		cause    string
		memory   string // cause of the last memory step
	}{
		"another process's memory": {shortage(policy.Shortage{RequestedBytes: 20e6, UsedBytes: 1e9, FreeBytes: 5e6, TotalBytes: 80e9}),
			crowded, event.CauseOutOfMemory, event.MemoryNeighbour},
		"no memory for a context": {shortage(policy.Shortage{}), crowded, event.CauseOutOfMemory, event.MemoryNeighbour},
		"its own budget": {shortage(policy.Shortage{RequestedBytes: 20e6, UsedBytes: 9e9, FreeBytes: 40e9, TotalBytes: 80e9}),
			once, event.CauseOutOfMemory, event.MemoryOwnCap},
		"no CUDA device": {policy.Error{Kind: policy.KindDevice, Message: "cuda:0: torch 2.9.0 finds no CUDA device"}, usual, event.CauseDevice, ""},
		"no bf16":        {policy.Error{Kind: policy.KindBadRequest, Message: "precision bf16 needs an Ampere GPU"}, never, event.CauseConfig, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, gpu := t.TempDir(), 0
			answer, err := json.Marshal(tt.answer)
			require.NoError(t, err)
			python := filepath.Join(dir, "engine.sh")
			script := fmt.Sprintf("#!/bin/sh\nread -r _; echo '{\"id\":1,\"result\":{\"protocol\":%d}}'\nread -r _; echo '{\"id\":2,\"error\":%s}'\nread -r _\n",
				policy.ProtocolVersion, answer)
			require.NoError(t, os.WriteFile(python, []byte(script), 0o755))
			var last event.MemoryStep
			result, err := launch.Run(t.Context(), launch.Spec{
				Run: "run", Exe: program, Args: []string{"node"}, Env: []string{policy.HostVariable + "=off", "GORACE=atexit_sleep_ms=0"},
				Plan: fit.Plan{Device: fit.DeviceCUDA, Rooms: []fit.Room{{GPU: &gpu}}, Placement: []fit.Placement{{Node: "node_0", GPU: &gpu}}},
				Starts: []protocol.Start{{
					Protocol: protocol.Version, Run: "run", Node: "node_0", Members: protocol.Members("node_0"), Dir: filepath.Join(dir, "node_0"),
					Config: encoded, Python: python, EngineDir: dir, Tokenizer: tokenizer.NameBytes, ModelDir: tinyModel(), Device: "cuda:0",
					Threads: 1, BudgetBytes: 9e9, OthersBytes: 20e9,
				}},
				Restarts: supervise.Policy{MaxRestarts: usual, First: time.Millisecond, Cap: 5 * time.Millisecond},
				Crowded:  supervise.Policy{MaxRestarts: crowded, First: time.Millisecond, Cap: 5 * time.Millisecond},
			}, func(e event.Event) {
				if e.Type == event.TypeMemoryStep {
					last = *e.MemoryStep
				}
			}, slog.New(slog.DiscardHandler))
			require.ErrorIs(t, err, launch.ErrLost)
			node := result.Nodes[0]
			require.Contains(t, node.Message, tt.answer.Message)
			require.Equal(t, []any{event.StateGivenUp, tt.restarts, tt.cause, tt.memory}, []any{node.State, node.Restarts, node.Cause, last.Cause})
		})
	}
}
