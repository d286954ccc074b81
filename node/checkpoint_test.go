package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

// saver is the engine's part in checkpoints: it writes files, and says of each what it is told to.
type saver struct {
	restored []string
	answers  map[string]error  // by file
	rounds   map[string]string // by file; else the file's own
}

func (s *saver) Save(_ context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	if err := os.WriteFile(p.Path, []byte(p.Metadata["round"]), 0o644); err != nil {
		return policy.SaveResult{}, err
	}
	return policy.SaveResult{Bytes: 1, SHA256: "sum of " + filepath.Base(p.Path), WeightHash: "hash"}, nil
}

func (s *saver) Restore(_ context.Context, p policy.RestoreParams) (policy.RestoreResult, error) {
	file := filepath.Base(p.Path)
	s.restored = append(s.restored, file)
	if err := s.answers[file]; err != nil {
		return policy.RestoreResult{}, err
	}
	round, told := s.rounds[file]
	if !told {
		data, err := os.ReadFile(p.Path)
		if err != nil {
			return policy.RestoreResult{}, err
		}
		round = string(data)
	}
	if want := "sum of " + file; p.SHA256 != want {
		return policy.RestoreResult{}, fmt.Errorf("sha256 %q, not %q", p.SHA256, want)
	}
	return policy.RestoreResult{Metadata: map[string]string{"round": round}}, nil
}

func file(round int) string { return fmt.Sprintf("checkpoint-%08d.safetensors", round) }

// filled is a folder with checkpoints of those rounds, and its engine.
func filled(t *testing.T, rounds ...int) (checkpoints, *saver) {
	t.Helper()
	c, s := checkpoints{dir: t.TempDir(), logger: slog.New(slog.DiscardHandler)}, &saver{answers: map[string]error{}, rounds: map[string]string{}}
	for _, round := range rounds {
		saved, err := c.save(t.Context(), s, round)
		require.NoError(t, err)
		require.Equal(t, round, saved.Round)
		require.Equal(t, filepath.Join(c.dir, file(round)), saved.Path)
	}
	return c, s
}

func TestCheckpointsKeepTheNewestTwo(t *testing.T) {
	c, s := filled(t, 5, 10, 15, 20)
	require.NoFileExists(t, filepath.Join(c.dir, file(10)))
	require.NoFileExists(t, filepath.Join(c.dir, "checkpoint-00000010.json"))
	round, err := c.restore(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 20, round)
	require.Equal(t, []string{file(20)}, s.restored)
}

func TestCheckpointsRestore(t *testing.T) {
	bad := &policy.Error{Kind: policy.KindCheckpoint, Message: "sha256 differs"}
	t.Run("none", func(t *testing.T) {
		c, s := filled(t)
		round, err := c.restore(t.Context(), s)
		require.NoError(t, err)
		require.Zero(t, round)
	})
	t.Run("the newest is damaged", func(t *testing.T) {
		c, s := filled(t, 1, 2)
		s.answers[file(2)] = bad
		round, err := c.restore(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, 1, round)
	})
	t.Run("the newest is another round's", func(t *testing.T) {
		c, s := filled(t, 1, 2)
		s.rounds[file(2)] = strconv.Itoa(9)
		round, err := c.restore(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, 1, round)
	})
	t.Run("all are damaged", func(t *testing.T) {
		c, s := filled(t, 1, 2)
		s.answers[file(1)], s.answers[file(2)] = bad, bad
		_, err := c.restore(t.Context(), s)
		require.ErrorContains(t, err, "none of the 2 checkpoints in "+c.dir+" can be read. Try:")
	})
	t.Run("the engine fails", func(t *testing.T) {
		// A good checkpoint is not passed over because there was no memory to read it.
		for _, failure := range []error{&policy.Error{Kind: policy.KindOutOfMemory}, policy.ErrEngineGone} {
			c, s := filled(t, 1, 2)
			s.answers[file(2)] = failure
			_, err := c.restore(t.Context(), s)
			require.ErrorIs(t, err, failure)
			require.Equal(t, []string{file(2)}, s.restored)
		}
	})
	t.Run("manifests that don't count", func(t *testing.T) {
		c, s := filled(t, 1)
		for name, text := range map[string]string{
			"checkpoint-00000007.json": `{"round":7,"file":"../../etc/passwd"}`,
			"checkpoint-00000008.json": `{"round":`,
			"checkpoint-00000009.json": `{"file":"checkpoint-00000009.safetensors"}`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644))
		}
		// Written without its manifest: the process was killed in between.
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, file(10)), []byte("10"), 0o644))
		round, err := c.restore(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, 1, round)
		require.Equal(t, []string{file(1)}, s.restored)
	})
}

func TestCheckpointIsNotWritten(t *testing.T) {
	c, s := filled(t)
	c.dir = filepath.Join(c.dir, "gone")
	_, err := c.save(t.Context(), s, 3)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "checkpoint after round 3")
	require.False(t, errors.Is(err, policy.ErrEngineGone))
}
