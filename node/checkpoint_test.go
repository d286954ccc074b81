package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// saver is a fake Saver. It writes files, and gives the scripted result for each.
type saver struct {
	background bool               // it writes only when Saved is called
	waiting    *policy.SaveParams // pending background save
	writing    bool               // Saved without wait finds the save still running
	failure    error              // error of a background save
	restored   []string
	answers    map[string]error  // Restore's error, by file
	rounds     map[string]string // round in the metadata, by file; default: the file's content
}

func (s *saver) Save(_ context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	if s.background && p.Background {
		s.waiting = &p
		return policy.SaveResult{Pending: true, Pause: 0.25}, nil
	}
	if err := os.WriteFile(p.Path, []byte(p.Metadata["round"]), 0o644); err != nil {
		return policy.SaveResult{}, err
	}
	return policy.SaveResult{Bytes: 1, SHA256: "sum of " + filepath.Base(p.Path), WeightHash: "hash"}, nil
}

func (s *saver) Saved(ctx context.Context, p policy.SavedParams) (policy.SaveResult, error) {
	if s.writing && !p.Wait {
		return policy.SaveResult{Pending: true}, nil
	}
	if s.failure != nil {
		return policy.SaveResult{}, s.failure
	}
	params := *s.waiting
	params.Background, s.waiting = false, nil
	return s.Save(ctx, params)
}

// Saved completes the scripted GPU's engine, which never saves in the background.
func (e *deviceEngine) Saved(context.Context, policy.SavedParams) (policy.SaveResult, error) {
	return policy.SaveResult{}, &policy.Error{Kind: policy.KindBadRequest}
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

// filled returns a folder with checkpoints of those rounds, and its engine.
func filled(t *testing.T, rounds ...int) (*checkpoints, *saver) {
	t.Helper()
	c := &checkpoints{dir: t.TempDir(), owner: owner{"run", "node_0", "tiny"}, logger: slog.New(slog.DiscardHandler)}
	s := &saver{answers: map[string]error{}, rounds: map[string]string{}}
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
	choice, err := c.restore(t.Context(), s, 99)
	require.NoError(t, err)
	require.Equal(t, 20, choice.round)
	require.Equal(t, file(20), choice.newest.File)
	require.Empty(t, choice.refused)
	require.Equal(t, []string{file(20)}, s.restored)
}

func TestCheckpointsRestore(t *testing.T) {
	bad := &policy.Error{Kind: policy.KindCheckpoint, Message: "sha256 differs"}
	damage := func(name string, change func([]byte) []byte) func(*testing.T, *checkpoints, *saver) {
		return func(t *testing.T, c *checkpoints, _ *saver) {
			path := filepath.Join(c.dir, name)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, change(data), 0o644))
		}
	}
	cases := []struct {
		name    string
		rounds  []int
		limit   int
		harm    func(*testing.T, *checkpoints, *saver)
		want    int
		refused []string // a substring of each reason
		tried   bool
	}{
		{"none", nil, 99, nil, 0, nil, false},
		{"the newest", []int{1, 2}, 99, nil, 2, nil, false},
		{"the newest is damaged", []int{1, 2}, 99, func(_ *testing.T, _ *checkpoints, s *saver) { s.answers[file(2)] = bad }, 1,
			[]string{"checkpoint of round 2: sha256 differs"}, true},
		{"the newest is another round's", []int{1, 2}, 99, func(_ *testing.T, _ *checkpoints, s *saver) { s.rounds[file(2)] = strconv.Itoa(9) }, 1,
			[]string{"checkpoint of round 2: its file belongs to round 9"}, true},
		{"all are damaged", []int{1, 2}, 99, func(_ *testing.T, _ *checkpoints, s *saver) { s.answers[file(1)], s.answers[file(2)] = bad, bad }, 0,
			[]string{"round 2", "round 1"}, true},
		{"its manifest has a flipped bit", []int{1, 2}, 99, damage("checkpoint-00000002.json", func(b []byte) []byte { b[40] ^= 1; return b }), 1,
			[]string{"checkpoint checkpoint-00000002.json: its manifest"}, false},
		{"its manifest is cut", []int{1, 2}, 99, damage("checkpoint-00000002.json", func(b []byte) []byte { return b[:30] }), 1,
			[]string{"its manifest is not JSON"}, false},
		{"its manifest is empty", []int{1, 2}, 99, damage("checkpoint-00000002.json", func([]byte) []byte { return nil }), 1,
			[]string{"its manifest is not JSON"}, false},
		{"rounds before it can't be told", []int{5, 10}, 7, nil, 5, []string{"round 7 is neither in the database nor complete in the journal"}, false},
		{"it was made without sum and owner", nil, 99, func(t *testing.T, c *checkpoints, s *saver) {
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, file(3)), []byte("3"), 0o644))
			text := `{"round":3,"file":"` + file(3) + `","sha256":"sum of ` + file(3) + `","weight_hash":"h","bytes":1}`
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, "checkpoint-00000003.json"), []byte(text), 0o644))
		}, 3, nil, false},
		{"manifests that don't count", []int{1}, 99, func(t *testing.T, c *checkpoints, _ *saver) {
			for name, text := range map[string]string{
				"checkpoint-00000007.json": `{"round":7,"file":"../../etc/passwd"}`,
				"checkpoint-00000008.json": `{"round":`,
				"checkpoint-00000009.json": `{"file":"checkpoint-00000009.safetensors"}`,
			} {
				require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644))
			}
			// A file without its manifest: the process was killed between the two writes.
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, file(10)), []byte("10"), 0o644))
		}, 1, []string{"00000007", "00000008", "00000009"}, false},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c, s := filled(t, k.rounds...)
			if k.harm != nil {
				k.harm(t, c, s)
			}
			choice, err := c.restore(t.Context(), s, k.limit)
			require.NoError(t, err)
			require.Equal(t, k.want, choice.round)
			require.Equal(t, k.tried, choice.tried)
			require.Len(t, choice.refused, len(k.refused))
			for i, part := range k.refused {
				require.Contains(t, choice.refused[i], part)
			}
			c.dropAbove(choice.round)
			again, err := c.restore(t.Context(), s, k.limit)
			require.NoError(t, err)
			require.Equal(t, k.want, again.round)
			require.Empty(t, again.refused, "what is not used is gone")
		})
	}
}

// restore does not skip a checkpoint that may be good: memory ran out, or reading it failed.
func TestRestoreFails(t *testing.T) {
	for _, failure := range []error{&policy.Error{Kind: policy.KindOutOfMemory}, &policy.Error{Kind: policy.KindUnreadable}, policy.ErrEngineGone} {
		c, s := filled(t, 1, 2)
		s.answers[file(2)] = failure
		_, err := c.restore(t.Context(), s, 99)
		require.ErrorIs(t, err, failure)
		require.Equal(t, []string{file(2)}, s.restored)
	}
}

// A failed read of a manifest or of the folder is not damage either, and nothing is removed.
func TestUnreadableManifests(t *testing.T) {
	c, s := filled(t, 1, 2)
	require.NoError(t, os.Remove(c.manifestPath(2)))
	require.NoError(t, os.Mkdir(c.manifestPath(2), 0o755))
	_, err := c.restore(t.Context(), s, 99)
	require.ErrorIs(t, err, syscall.EISDIR)
	require.ErrorContains(t, err, c.manifestPath(2))
	quiet := slog.New(slog.DiscardHandler)
	require.ErrorIs(t, RestoreRound(t.Context(), c.dir, 2, s, quiet), syscall.EISDIR)
	require.NoError(t, RestoreRound(t.Context(), c.dir, 1, s, quiet))
	s.restored = nil
	found := CheckFiles(c.dir)
	require.Len(t, found, 2)
	require.Equal(t, file(1)+": its sha256 differs from its manifest's", found[0])
	require.Contains(t, found[1], "checkpoint-00000002.json cannot be read, but may be intact: ")
	c.dropAbove(99)
	require.DirExists(t, c.manifestPath(2))

	c.dir = filepath.Join(c.dir, "loop")
	require.NoError(t, os.Symlink("loop", c.dir))
	_, err = c.restore(t.Context(), s, 99)
	require.ErrorIs(t, err, syscall.ELOOP)
	require.ErrorIs(t, RestoreRound(t.Context(), c.dir, 2, s, quiet), syscall.ELOOP)
	require.Empty(t, s.restored)
}

// A checkpoint of another run, node or model is not damage. restore reports it to the user and computes nothing
// over it.
func TestForeignCheckpointsAreRefused(t *testing.T) {
	cases := []struct {
		name string
		harm func(*testing.T, *checkpoints, *saver)
		want string
	}{
		{"another model", func(_ *testing.T, c *checkpoints, _ *saver) { c.owner.Model = "gpt2" }, "it belongs to model tiny, not gpt2"},
		{"another run", func(_ *testing.T, c *checkpoints, _ *saver) { c.owner.Run = "r2" }, "it belongs to run run, not r2"},
		{"another node", func(_ *testing.T, c *checkpoints, _ *saver) { c.owner.Node = "node_7" }, "it belongs to node node_0, not node_7"},
		{"a newer program's", func(t *testing.T, c *checkpoints, _ *saver) {
			m := manifest{Version: 2, Round: 2, File: file(2)}
			require.NoError(t, m.write(c.manifestPath(2)))
		}, "a newer version of the program wrote it: its manifest's version is 2, this program reads 1"},
		{"the engine says so", func(t *testing.T, c *checkpoints, s *saver) {
			path := filepath.Join(c.dir, file(2))
			digest := sha256.Sum256([]byte("2"))
			m := manifest{Version: 1, Round: 2, File: file(2), SHA256: hex.EncodeToString(digest[:])}
			require.NoError(t, m.write(c.manifestPath(2)))
			s.answers[file(2)] = &policy.Error{Kind: policy.KindCheckpoint, Message: path + ": it is of another model, gpt2 (layers 12), than the loaded one"}
		}, "it is of another model, gpt2 (layers 12), than the loaded one"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c, s := filled(t, 1, 2)
			k.harm(t, c, s)
			_, err := c.restore(t.Context(), s, 99)
			require.Equal(t, event.CauseConfig, classify(err).Cause, "%v", err)
			require.ErrorContains(t, err, k.want)
			require.ErrorContains(t, err, ". Try: ")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	t.Run("a damaged file that speaks of another model", func(t *testing.T) {
		c, s := filled(t, 1, 2)
		s.answers[file(2)] = &policy.Error{Kind: policy.KindCheckpoint, Message: "it is of another model"}
		choice, err := c.restore(t.Context(), s, 99)
		require.NoError(t, err)
		require.Equal(t, 1, choice.round)
	})
	t.Run("a file that speaks of another model and can't be read again", func(t *testing.T) {
		c, s := filled(t, 1, 2)
		s.answers[file(2)] = &policy.Error{Kind: policy.KindCheckpoint, Message: "it is of another model"}
		require.NoError(t, os.Remove(filepath.Join(c.dir, file(2))))
		require.NoError(t, os.Symlink(file(2), filepath.Join(c.dir, file(2))))
		_, err := c.restore(t.Context(), s, 99)
		require.ErrorIs(t, err, syscall.ELOOP)
		require.Equal(t, []string{file(2)}, s.restored)
	})
}

func TestRestoreNewest(t *testing.T) {
	t.Parallel()
	bad := &policy.Error{Kind: policy.KindCheckpoint, Message: "sha256 differs"}
	quiet := slog.New(slog.DiscardHandler)
	c, s := filled(t, 1, 2)
	s.background = true
	_, err := c.begin(t.Context(), s, 3) // the node is writing it
	require.NoError(t, err)
	rounds, err := RestoreNewest(t.Context(), c.dir, s, quiet)
	require.NoError(t, err)
	require.Equal(t, 2, rounds)
	s.answers[file(2)] = bad
	rounds, err = RestoreNewest(t.Context(), c.dir, s, quiet)
	require.NoError(t, err)
	require.Equal(t, 1, rounds)
	s.answers[file(1)] = bad
	_, err = RestoreNewest(t.Context(), c.dir, s, quiet)
	require.ErrorContains(t, err, "none of the 2 checkpoints in "+c.dir+" can be read. Try:")
	rounds, err = RestoreNewest(t.Context(), t.TempDir(), s, quiet)
	require.NoError(t, err)
	require.Zero(t, rounds)
}

func TestCheckpointInTheBackground(t *testing.T) {
	t.Parallel()
	c, s := filled(t, 5)
	none, err := c.collect(t.Context(), s, true)
	require.NoError(t, err)
	require.Nil(t, none, "none is pending")

	s.background, s.writing = true, true
	begun, err := c.begin(t.Context(), s, 10)
	require.NoError(t, err)
	require.Nil(t, begun)
	begun, err = c.collect(t.Context(), s, false)
	require.NoError(t, err)
	require.Nil(t, begun)
	choice, err := c.restore(t.Context(), s, 99)
	require.NoError(t, err)
	require.Equal(t, 5, choice.round, "what is being written does not count")
	written, err := c.collect(t.Context(), s, true)
	require.NoError(t, err)
	require.Equal(t, 10, written.Round)
	require.Equal(t, 0.25, written.Pause)
	choice, err = c.restore(t.Context(), s, 99)
	require.NoError(t, err)
	require.Equal(t, 10, choice.round)

	_, err = c.begin(t.Context(), s, 15)
	require.NoError(t, err)
	s.failure = errSaveLost
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, file(15)), nil, 0o644))
	begun, err = c.collect(t.Context(), s, true)
	require.NoError(t, err, "an engine that was replaced costs the checkpoint")
	require.Nil(t, begun)
	require.NoFileExists(t, filepath.Join(c.dir, file(15)))

	_, err = c.begin(t.Context(), s, 20)
	require.NoError(t, err)
	s.failure = &policy.Error{Kind: policy.KindCheckpoint, Message: "/a: No space left on device"}
	_, err = c.collect(t.Context(), s, false)
	s.writing = false
	if err == nil {
		_, err = c.collect(t.Context(), s, true)
	}
	require.ErrorContains(t, err, "checkpoint after round 20")
	require.Equal(t, event.CauseDisk, classify(err).Cause)
}

func TestLeftoversOfDeadLivesAreRemoved(t *testing.T) {
	c, _ := filled(t, 5)
	ours := []string{
		file(10), file(15) + ".4711.partial.tmp", ".checkpoint-00000015.json-123.tmp", "restart.safetensors", "restart.safetensors.12.partial.tmp",
		".memory.json-99.tmp",
	}
	others := []string{file(5), "checkpoint-00000005.json", "journal-00000000.log", "memory.json", "pid.json", ".pid.json-1.tmp", "log.txt"}
	for _, name := range append(ours, others[2:]...) {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), nil, 0o644))
	}
	c.leftovers()
	var left []string
	entries, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	require.ElementsMatch(t, others, left)
}

// Every flipped bit of a manifest is detected, or the manifest no longer parses.
func TestEveryFlippedBitOfAManifestIsFound(t *testing.T) {
	c, _ := filled(t, 7)
	data, err := os.ReadFile(c.manifestPath(7))
	require.NoError(t, err)
	for bit := range 8 * len(data) {
		harmed := slices.Clone(data)
		harmed[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(c.manifestPath(7), harmed, 0o644))
		_, err := readManifest(c.manifestPath(7))
		require.Error(t, err, "bit %d: %s", bit, harmed)
		require.NotErrorIs(t, err, errNewerManifest)
	}
}

func TestCheckpointIsNotWritten(t *testing.T) {
	c, s := filled(t)
	c.dir = filepath.Join(c.dir, "gone")
	_, err := c.save(t.Context(), s, 3)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "checkpoint after round 3")
	require.False(t, errors.Is(err, policy.ErrEngineGone))
}
