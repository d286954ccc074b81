package rlswarm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func read(t *testing.T, dir string, o Options) (store.Import, *Report) {
	t.Helper()
	x, report, err := Read(t.Context(), dir, o)
	require.NoError(t, err)
	return x, report
}

func TestSumsBecomeMeansAndDoubledRowsCountOnce(t *testing.T) {
	x, report := read(t, example(t).write(t), Options{Model: "gpt2"})
	require.Equal(t, []any{15, 15, 0, 0, 0, 0},
		[]any{report.NodeRounds, report.Doubled, report.Replaced, report.Disagreements, report.Skipped, report.Untimed})
	require.Empty(t, report.Assumed)
	require.Equal(t, map[string]int{kindMetrics: 30, kindStages: 15, kindRewards: 15, kindCumulative: 30}, report.Records)
	r := x.Run
	require.Equal(t, []any{"sapo_gpt2_config2_4loc4ext", "gpt2", int64(7), 5, 4, 4, 8, store.RunDone, []string{"node_1", "node_2", "node_3"}},
		[]any{r.Experiment, r.Model, r.Seed, r.Rounds, r.NumTrainSamples, r.NumTransplantTrees, r.NumGenerations, r.State, r.NodeIDs})
	require.Equal(t, "sapo_gpt2_config2_4loc4ext-20251119T093933Z-rl-swarm", r.Run)
	require.InDelta(t, began, r.Started, 1e-6)
	require.InDelta(t, began+500, r.Ended, 1e-6)
	total := 0.0
	for _, got := range x.Rounds {
		node := int(got.Node[5] - '0')
		sum := float64(node) + 0.5*float64(got.Round.Round)
		require.Equal(t, []any{sum, sum / 32, 32, 4, kindMetrics}, []any{got.RewardSum, got.Reward, got.Completions, got.Records, got.Source})
		require.Equal(t, []int{4, 4}, []int{got.TrainedOwn, got.TrainedExternal})
		require.Equal(t, "unrecorded", got.NonFinite["loss"])
		total += got.Reward
	}
	require.InDelta(t, (3*(1+2+3+4)*0.5+5*(1+2+3))/32.0, total, 1e-12)
}

func TestEachKindOfRecordIsEnough(t *testing.T) {
	for name, keep := range map[string]string{kindRewards: "rewards", kindCumulative: "cumulative_metrics.jsonl", kindMetrics: "metrics.jsonl"} {
		t.Run(name, func(t *testing.T) {
			dir := example(t).write(t)
			all, _ := read(t, dir, Options{})
			if keep != "rewards" {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "rewards")))
			}
			for n := range 4 {
				for _, log := range []string{"metrics.jsonl", "cumulative_metrics.jsonl"} {
					if log != keep {
						_ = os.Remove(filepath.Join(dir, "logs", fmt.Sprint("node_", n), log))
					}
				}
			}
			x, report := read(t, dir, Options{})
			require.Len(t, x.Rounds, len(all.Rounds))
			for i, got := range x.Rounds {
				require.Equal(t, name, got.Source)
				require.InDelta(t, all.Rounds[i].RewardSum, got.RewardSum, 1e-9)
				require.InDelta(t, all.Rounds[i].Reward, got.Reward, 1e-9)
				require.Equal(t, all.Rounds[i].Time, got.Time)
			}
			require.Equal(t, name == kindCumulative, report.FromSums == 15)
			require.Equal(t, all.Run.Run, x.Run.Run)
		})
	}
}

func TestTheNewestRecordOfARoundCounts(t *testing.T) {
	x := example(t)
	dir := x.write(t)
	again := dict(t, "timestamp", began+400, "round", 2, "stage", 0, "node_id", "node_1", "my_reward", 16.0, "peer_id", "node_1")
	stale := dict(t, "timestamp", began+1, "round", 3, "stage", 0, "node_id", "node_1", "my_reward", 99.0, "peer_id", "node_1")
	appendTo(t, filepath.Join(dir, "logs/node_1/metrics.jsonl"), again+stale)
	got, report := read(t, dir, Options{})
	require.Equal(t, 2, report.Replaced)
	require.Equal(t, 1, report.Disagreements, "rewards/ still has the former one")
	require.Equal(t, 16.0, roundOf(t, got, "node_1", 2).RewardSum)
	require.Equal(t, 2.5, roundOf(t, got, "node_1", 3).RewardSum)
}

// The cumulative reward of a restarted node begins again at 0.
func TestGrowthOfCumulativeRewardsSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	for round, total := range []float64{2, 5, 5, 1, 4} {
		line := dict(t, "timestamp", began+float64(round), "round", 2*round, "peer_id", "n", "cumulative_reward", total)
		name := filepath.Join(dir, "logs/n/cumulative_metrics.jsonl")
		if round == 0 {
			put(t, dir, "logs/n/cumulative_metrics.jsonl", "")
		}
		appendTo(t, name, line)
	}
	got, report := read(t, dir, Options{})
	var sums []float64
	for _, r := range got.Rounds {
		sums = append(sums, r.RewardSum)
	}
	require.Equal(t, []float64{2, 3, 0, 1, 3}, sums)
	require.Equal(t, []int{5, 5}, []int{report.FromSums, report.NodeRounds})
}

func TestAdaptiveJIsOfTheRoundsAfterIt(t *testing.T) {
	x := example(t)
	x.adaptive = true
	got, _ := read(t, x.write(t), Options{})
	var path, split []int
	for round := range 5 {
		r := roundOf(t, got, "node_2", round)
		path, split = append(path, r.TrainedExternal), append(split, r.SplitExternal)
	}
	require.Equal(t, []int{4, 0, 1, 2, 0}, path)
	require.Equal(t, []int{0, 0, 1, 2, 0}, split)
	require.Equal(t, []int{0, 4}, []int{roundOf(t, got, "node_2", 0).SplitOwn, roundOf(t, got, "node_2", 4).SplitOwn}, "none before the first record of it")
}

func TestDamageIsNamedAndSkipped(t *testing.T) {
	x := example(t)
	x.sum = func(node, round int) float64 {
		switch {
		case node == 3 && round == 4:
			return math.NaN()
		case node == 3 && round == 3:
			return math.Inf(-1)
		}
		return 1
	}
	dir := x.write(t)
	put(t, dir, "rewards/round_1/stage_0/node_1.json", `{"round": 1, "stage": 0, "rew`)
	put(t, dir, "rewards/round_1/stage_0/node_2.json", dict(t, "round", 4, "stage", 0, "reward", 1.0, "peer_id", "node_2"))
	put(t, dir, "rewards/round_1/stage_0/empty.json", "")
	put(t, dir, "rewards/round_1/stage_0/nameless.json", dict(t, "round", 1, "reward", 1.0))
	put(t, dir, "rewards/round_1/stage_0/evil.json", dict(t, "round", 1, "reward", 1.0, "peer_id", "a\x1b[2J"))
	put(t, dir, "rewards/round_1/stage_0/big.json", strings.Repeat(" ", maxSmallFile+1))
	put(t, dir, "rewards/round_1/stage_0/.DS_Store", "x")
	put(t, dir, "rewards/round_x/stage_0/node_1.json", "{}")
	put(t, dir, "peers/torn.json", "{")
	put(t, dir, "config.yaml", "a: b: c")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "rewards/round_1/stage_0/link.json")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "rewards/round_1/stage_0/pipe.json"), 0o600))
	log := filepath.Join(dir, "logs/node_1/metrics.jsonl")
	appendTo(t, log, dict(t, "timestamp", 1.0, "round", 1.5, "node_id", "node_1", "my_reward", 1.0)+
		dict(t, "round", "two", "node_id", "node_1")+strings.Repeat("x", maxLine+10)+"\n"+"[]\n"+`{"round": 9, "node_id": "node_1", "my_rew`)
	got, report := read(t, dir, Options{})
	var names []string
	for _, p := range report.Problems {
		names = append(names, p.String())
	}
	require.Equal(t, report.Skipped, len(names))
	for _, want := range []string{
		`"rewards/round_1/stage_0/node_1.json": it is truncated or not JSON`, `"rewards/round_1/stage_0/node_2.json": it belongs to round 4`,
		`"rewards/round_1/stage_0/empty.json": it is truncated or not JSON`, `"rewards/round_1/stage_0/nameless.json": it names no node`,
		`"rewards/round_1/stage_0/evil.json": its node's name: "a\x1b[2J" has control characters`,
		`"rewards/round_1/stage_0/big.json": it has 1048577 bytes, more than 1048576`,
		`"rewards/round_x": not a file name of rl-swarm`, `"peers/torn.json": it is truncated or not JSON`, `"config.yaml": it is not YAML`,
		`"rewards/round_1/stage_0/pipe.json": it is not a file`,
		`"logs/node_1/metrics.jsonl", line 21: round 1.5 is not a whole number from 0 to 10000000`, `"logs/node_1/metrics.jsonl", line 22: "two" is not a number`,
		`"logs/node_1/metrics.jsonl", line 23: ` + errLongLine.Error(), `"logs/node_1/metrics.jsonl", line 24: it is not a JSON object`,
		`"logs/node_1/metrics.jsonl", line 25: it is truncated or not JSON`,
	} {
		require.Contains(t, names, want)
	}
	require.Contains(t, strings.Join(names, "\n"), `"rewards/round_1/stage_0/link.json": `, "a link that leads out of the folder")
	require.Len(t, got.Rounds, 15, "the logs still have every round")
	require.Equal(t, 2, report.NotNumbers)
	require.True(t, math.IsNaN(roundOf(t, got, "node_3", 4).RewardSum))
	require.Contains(t, strings.Join(report.Assumed, "\n"), "seed 42")
	require.Equal(t, 8, got.Run.NumGenerations, "counted in the rollouts")
}

func TestARunThatStoppedEarlyIsNotDone(t *testing.T) {
	x := example(t)
	x.planned = 50
	got, _ := read(t, x.write(t), Options{})
	require.Equal(t, store.RunStopped, got.Run.State)
	require.Contains(t, got.Run.Message, "5 of 50 rounds")
}

func TestSettingsComeFromTheFirstPlaceThatTells(t *testing.T) {
	x := example(t)
	dir := x.write(t)
	zero, seed := 0, int64(-3)
	got, report := read(t, dir, Options{NumTrainSamples: 2, NumTransplantTrees: &zero, NumGenerations: 4, Seed: &seed, Name: "mine"})
	require.Equal(t, []any{2, 0, 4, int64(-3), "mine"},
		[]any{got.Run.NumTrainSamples, got.Run.NumTransplantTrees, got.Run.NumGenerations, got.Run.Seed, got.Run.Experiment})
	require.Contains(t, report.Assumed, "num_train_samples is 2 in the command line but 4 in config.yaml: the former is used")
	require.Equal(t, 32, got.Rounds[0].Completions, "the log says how many completions its sum is over")

	require.NoError(t, os.Remove(filepath.Join(dir, "config.yaml")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "rollouts")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "logs")))
	got, report = read(t, dir, Options{})
	require.Equal(t, []any{4, 4, 8, 5}, []any{got.Run.NumTrainSamples, got.Run.NumTransplantTrees, got.Run.NumGenerations, got.Run.Rounds})
	require.Contains(t, strings.Join(report.Assumed, "\n"), "num_generations 8, rl-swarm's default")
	_, _, err := Read(t.Context(), dir, Options{Name: "a/b"})
	require.ErrorContains(t, err, `"a/b" is not a valid experiment name`)
}

func TestTheDigestTellsFoldersApart(t *testing.T) {
	x := example(t)
	dir := x.write(t)
	first, _ := read(t, dir, Options{})
	again, _ := read(t, dir, Options{})
	require.Equal(t, first.Digest, again.Digest)
	moved := filepath.Join(t.TempDir(), filepath.Base(dir))
	require.NoError(t, os.Rename(dir, moved))
	again, _ = read(t, moved, Options{})
	require.Equal(t, first.Digest, again.Digest, "where it lies is no part of it")
	x.dir, x.rounds = moved, 4
	require.NoError(t, os.RemoveAll(moved))
	fewer, _ := read(t, x.write(t), Options{})
	require.NotEqual(t, first.Digest, fewer.Digest)
	require.Equal(t, first.Run.Run, fewer.Run.Run, "the same run, with less of it")
}

func TestFind(t *testing.T) {
	x := example(t)
	base := t.TempDir()
	x.dir = filepath.Join(base, "experiments", "b")
	b := x.write(t)
	x.dir = filepath.Join(base, "experiments", "a")
	a := x.write(t)
	put(t, base, "experiments/notes/readme", "x")
	for dir, want := range map[string][]string{base: {a, b}, filepath.Join(base, "experiments"): {a, b}, b: {b}} {
		got, err := Find(dir)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Find(t.TempDir())
	require.ErrorIs(t, err, ErrNothing)
	_, err = Find(filepath.Join(base, "nosuch"))
	require.ErrorIs(t, err, os.ErrNotExist)
	put(t, base, "empty/logs/node_1/metrics.jsonl", "\n")
	_, report, err := Read(t.Context(), filepath.Join(base, "empty"), Options{})
	require.ErrorIs(t, err, ErrNothing)
	require.NotNil(t, report)
}

func TestReadingCanBeStopped(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	stop(why)
	_, _, err := Read(ctx, example(t).write(t), Options{})
	require.ErrorIs(t, err, why)
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"round": 3, "node_id": "node_1", "my_reward": NaN, "timestamp": 1763545173.1}`))
	f.Add([]byte(`{"round": 1e99, "peer_id": "\u0000", "stage_reward": -Infinity, "num_samples": 0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r row
		if decode(text, &r) != nil {
			return
		}
		x, err := r.logged()
		if err != nil {
			return
		}
		require.NoError(t, checkNode(x.node))
		require.True(t, x.round >= 0 && x.round <= maxRound && x.samples >= 0)
		require.True(t, x.time == 0 || x.time > 946_684_800)
		b := newBook(&Report{Records: map[string]int{}})
		require.NoError(t, b.add(x))
		for _, got := range b.rounds(&settings{report: b.report, trainSamples: 1, generations: 1}) {
			require.Positive(t, got.Completions)
		}
	})
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(old, text...), 0o600))
}

func roundOf(t *testing.T, x store.Import, node string, round int) store.ImportedRound {
	t.Helper()
	for _, r := range x.Rounds {
		if r.Node == node && r.Round.Round == round {
			return r
		}
	}
	require.Fail(t, "no such round")
	return store.ImportedRound{}
}
