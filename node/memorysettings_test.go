package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/stretchr/testify/require"
)

func TestLearntIsRecalled(t *testing.T) {
	start := protocol.Start{Dir: t.TempDir(), Config: []byte(`{"rounds":3}`), Device: "cuda:0", BudgetBytes: 100}
	fresh, err := recall(start)
	require.NoError(t, err)
	require.Equal(t, memorySettings{Version: memorySettingsVersion, Assignment: assignmentHash(start), BudgetBytes: 100}, fresh)

	taught := fresh
	taught.Update.fail(16, false)
	taught.Generate.fail(32, true)
	taught.OptimizerOffload = true
	require.NoError(t, taught.keep(start.Dir))
	again, err := recall(start)
	require.NoError(t, err)
	require.Equal(t, taught, again)

	cases := []struct {
		name   string
		change func(*protocol.Start)
		want   func(l memorySettings) // checks the recalled settings
	}{
		{"another configuration", func(s *protocol.Start) { s.Config = []byte(`{"rounds":4}`) }, func(l memorySettings) { require.Zero(t, l.Update) }},
		{"another device", func(s *protocol.Start) { s.Device = "cpu" }, func(l memorySettings) { require.False(t, l.OptimizerOffload) }},
		{"another model", func(s *protocol.Start) { s.ModelDir = "/b" }, func(l memorySettings) { require.Zero(t, l.Generate) }},
		{"a smaller budget", func(s *protocol.Start) { s.BudgetBytes = 90 }, func(l memorySettings) {
			require.Equal(t, pace{Limit: 8, Failed: 16}, l.Update)
			require.EqualValues(t, 90, l.BudgetBytes)
		}},
		{"a larger budget", func(s *protocol.Start) { s.BudgetBytes = 110 }, func(l memorySettings) {
			require.Equal(t, pace{Limit: 8, quiet: quietRounds}, l.Update)
			require.True(t, l.OptimizerOffload)
		}},
		{"no budget any more", func(s *protocol.Start) { s.BudgetBytes = 0 }, func(l memorySettings) { require.Zero(t, l.Update.Failed) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			changed := start
			c.change(&changed)
			l, err := recall(changed)
			require.NoError(t, err)
			require.Equal(t, assignmentHash(changed), l.Assignment)
			c.want(l)
		})
	}
}

// An unusable file causes a warning, and the node continues.
func TestDamagedLessonsAreForgotten(t *testing.T) {
	start := protocol.Start{Dir: t.TempDir(), Config: []byte(`{}`)}
	path := filepath.Join(start.Dir, memorySettingsFile)
	hash := assignmentHash(start)
	for _, text := range []string{"", "{", "[]", "\x00\x01", `{"version":1,"assignment":"` + hash + `","update":{"limit":-4}}`, `{"version":"x"}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		l, err := recall(start)
		require.ErrorContains(t, err, memorySettingsFile, text)
		require.Equal(t, memorySettings{Version: memorySettingsVersion, Assignment: hash}, l)
	}
	require.NoError(t, os.WriteFile(path, []byte(`{"version":99,"assignment":"`+hash+`","update":{"limit":4}}`), 0o644))
	l, err := recall(start)
	require.NoError(t, err, "of a later version")
	require.Zero(t, l.Update)
}
