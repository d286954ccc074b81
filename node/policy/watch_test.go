package policy_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

const glance = 20 * time.Millisecond // interval of a watch's checks in tests

// watched starts a fake engine with an impatient watch. The returned channel receives the watch's messages.
func watched(t *testing.T, script string, stallLimit time.Duration) (*policy.Engine, chan string) {
	t.Helper()
	options, _ := fake(t, script)
	said := make(chan string, 100)
	options.StallLimit, options.OnTrouble = stallLimit, func(line string) { said <- line }
	engine, err := policy.Start(t.Context(), policy.Impatient(options, glance))
	require.NoError(t, err)
	t.Cleanup(func() {
		engine.Close()
		policytest.Gone(t, engine.PID())
	})
	return engine, said
}

func TestStoppedEngineIsContinued(t *testing.T) {
	engine, said := watched(t, greet+`read -r line; kill -STOP $$; echo '{"id":2,"result":{"rss_bytes":7}}'; read -r line`, 0)
	memory, err := engine.Memory(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, memory.RSSBytes)
	require.Regexp(t, `^the engine's process \d+ was suspended by another process; resumed it after 100ms$`, <-said)
}

func TestEngineThatStaysStoppedIsKilled(t *testing.T) {
	engine, said := watched(t, "trap 'kill -STOP $$' CONT\n"+greet+"read -r line; kill -STOP $$; while :; do sleep 60; done", 0)
	_, err := engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineStalled)
	require.ErrorContains(t, err, "is suspended, and SIGCONT does not resume it")
	require.NotEmpty(t, said)
	policytest.Gone(t, engine.PID())
	_, err = engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineGone)
}

func TestIdleEngineIsKilledUnlessItWaitsForADisk(t *testing.T) {
	script := greet + `read -r line; sleep 1; echo '{"id":2,"result":{"bytes":5}}'; read -r line; exec sleep 60`
	engine, said := watched(t, script, 300*time.Millisecond)
	saved, err := engine.Save(t.Context(), policy.SaveParams{Path: "/x"})
	require.NoError(t, err, "a save may wait")
	require.EqualValues(t, 5, saved.Bytes)
	_, err = engine.Memory(t.Context())
	require.ErrorIs(t, err, policy.ErrEngineStalled)
	require.ErrorContains(t, err, "no processor time")
	require.Empty(t, said)
	policytest.Gone(t, engine.PID())
}

// An engine that closes a pipe and continues can no longer be used.
func TestEngineThatClosesAPipeIsKilled(t *testing.T) {
	cases := []struct{ name, script, says string }{
		{"stdout in a call", "read -r line; exec >&-; exec sleep 60", "it closed its stdout"},
		{"stdin in a call", "head -c 1000 >/dev/null; exec <&-; exec sleep 60", "it closed its stdin"},
		{"stdout before the call", "exec >&-; exec sleep 60", "it closed its stdout"},
		{"both", "exec >&- <&-; exec sleep 60", "it closed its std"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			engine, _ := watched(t, greet+c.script, 0)
			began := time.Now()
			// A request larger than the pipe, so that a closed stdin shows while it is being written.
			_, err := engine.Generate(t.Context(), policy.GenerateParams{Prompts: [][]int{make([]int, 1<<20)}})
			require.ErrorIs(t, err, policy.ErrProtocol)
			require.ErrorContains(t, err, c.says)
			require.Less(t, time.Since(began), 20*time.Second)
			policytest.Gone(t, engine.PID())
			_, err = engine.Memory(t.Context())
			require.ErrorIs(t, err, policy.ErrEngineGone)
		})
	}
}

// A real engine that is stopped while it generates continues with the same result.
func TestStopChangesNoResult(t *testing.T) {
	options := lab.Options(t)
	var troubles atomic.Int64
	options.OnTrouble = func(string) { troubles.Add(1) }
	engine, err := policy.Start(t.Context(), policy.Impatient(options, glance))
	require.NoError(t, err)
	defer engine.Close()
	policytest.Load(t, engine, policytest.Config(t), 7)
	params := sample(1)
	params.NumGenerations, params.MaxNewTokens, params.EOSTokenID = 64, 200, -1
	calm, err := engine.Generate(t.Context(), params)
	require.NoError(t, err)
	ended := make(chan error, 1)
	var stormy policy.GenerateResult
	go func() {
		var err error
		stormy, err = engine.Generate(t.Context(), params)
		ended <- err
	}()
	stops, used := 0, policy.Used(engine.PID())
	for running := true; running; {
		select {
		case err := <-ended:
			require.NoError(t, err)
			running = false
		case <-time.After(10 * time.Millisecond):
			// It has worked since the SIGCONT: an earlier stop could not be told from one that SIGCONT does not
			// end.
			if now := policy.Used(engine.PID()); stops < 2 && troubles.Load() == int64(stops) && now >= used+50*time.Millisecond {
				require.NoError(t, syscall.Kill(engine.PID(), syscall.SIGSTOP))
				stops, used = stops+1, now
			}
		}
	}
	require.Positive(t, stops)
	require.Positive(t, troubles.Load())
	require.Equal(t, calm.Completions, stormy.Completions)
	require.Equal(t, calm.Logprobs, stormy.Logprobs)
}
