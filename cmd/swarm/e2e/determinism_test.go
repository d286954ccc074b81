package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Results do not depend on the number of nodes that compute at a time, the number of threads, the number of sequences
// at a time, or the times of checkpoints.
func TestScheduleDoesNotShow(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for _, tt := range []struct {
		name  string
		cores string // CPU cores for the run; empty: all
		flags []string
		says  string
	}{
		{"one at a time", "0", []string{"--checkpoint-every", "1"}, "1 computes at a time on 1 core"},
		{"all at once", "", []string{"--share", "static", "--checkpoint-every", "1000"}, ""},
		{"other micro-batch", "", []string{"--micro-batch", "3", "--gradient-checkpointing"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			cmd := swarmCommand(t, home, append(append([]string{"up", "--name", "e"}, tinyRun(longRun()...)...), tt.flags...)...)
			if tt.cores != "" {
				taskset, err := exec.LookPath("taskset")
				if err != nil {
					t.Skip("no taskset")
				}
				cmd.Args[0] = cmd.Path
				cmd.Path, cmd.Args = taskset, append([]string{"taskset", "-c", tt.cores}, cmd.Args...)
			}
			o := finish(t, cmd)
			require.Equal(t, 0, o.code, o.stderr)
			require.Contains(t, o.stdout, tt.says)
			got := readLearned(t, home, "e-1")
			require.InDelta(t, want.reward, got.reward, 0)
			require.Equal(t, want.checkpoints, got.checkpoints)
		})
	}
}
