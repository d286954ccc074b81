package node

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/node/policy"
)

func TestSharingIsKnownOnlyOfAllProcesses(t *testing.T) {
	if !hostmem.Told() {
		t.Skip("this kernel does not say what processes share")
	}
	known := func(pid, ranks int) bool {
		m := &meter{hello: policy.HelloResult{PID: pid}}
		m.rest(policy.Memory{RSSBytes: 1 << 40})
		(&sharing{ranks: ranks}).sample(m, time.Now())
		return m.report(0).PSSBytes > 0
	}
	require.True(t, known(os.Getpid(), 1))
	require.False(t, known(os.Getpid(), 3), "two ranks are missing")
	require.False(t, known(1<<30, 1), "the engine has ended")
	require.False(t, known(0, 1), "there is no engine yet")
}

func TestSharingIsSampledRarely(t *testing.T) {
	if !hostmem.Told() {
		t.Skip("this kernel does not say what processes share")
	}
	m, s, now := &meter{hello: policy.HelloResult{PID: os.Getpid()}}, sharing{ranks: 1}, time.Now()
	for range earlySamples {
		m.sampled = false
		s.sample(m, now)
		require.True(t, m.sampled)
	}
	require.True(t, s.next.After(now), "what a sample took bounds when the next one may be")
	m.sampled = false
	s.sample(m, s.next.Add(-1))
	require.False(t, m.sampled)
	s.sample(m, s.next)
	require.True(t, m.sampled)
}
