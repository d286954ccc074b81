package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/rlswarm"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

func TestExportedRewardsAddUpToWhatCompareShows(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, append(threeSeeds("base", 0, 0.3), threeSeeds("x", 4, 0.5)...)...)
	o := swarm(t, home, "export", "x", "--table", "rounds", "--out", "-")
	require.Equal(t, 0, o.code, o.stderr)
	records, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "reward", records[0][4])
	total := 0.0
	for _, r := range records[1:] {
		v, err := strconv.ParseFloat(r[4], 64)
		require.NoError(t, err)
		total += v
	}
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(swarm(t, home, "compare", "x", "-o", "json").stdout), &c))
	require.InDelta(t, c.Rows[0].CumulativeReward, total, 1e-9)
}

func TestExportWritesFoldersAndFiles(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3, 0.4)...)
	dir := filepath.Join(t.TempDir(), "out")
	for _, format := range []string{"csv", "jsonl", "tensorboard"} {
		o := swarm(t, home, "export", "--format", format, "--out", dir, "-o", "json")
		require.Equal(t, 0, o.code, o.stderr)
		var d export.Document
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
		require.Equal(t, []any{dir, format, 2}, []any{d.Path, d.Format, d.Runs})
		for _, f := range d.Files {
			info, err := os.Stat(filepath.Join(dir, f.Path))
			require.NoError(t, err)
			require.Equal(t, f.Bytes, info.Size())
		}
	}
	file := filepath.Join(t.TempDir(), "r.jsonl")
	o := swarm(t, home, "export", "--format", "jsonl", "--table", "runs", "--out", file)
	require.Contains(t, o.stdout, "runs 2, files 1, rows 2")
	require.FileExists(t, file)
}

// Without --out nothing is written into the current folder.
func TestExportOfOneTableGoesToStdout(t *testing.T) {
	t.Parallel()
	home, here := comparedHome(t, threeSeeds("base", 0, 0.3)...), t.TempDir()
	for _, x := range []struct {
		args []string
		code int
	}{{[]string{"--table", "runs"}, 0}, {[]string{"--table", "runs", "--format", "jsonl"}, 0}, {nil, fail.ExitUsage}, {[]string{"--format", "sqlite"}, fail.ExitUsage}} {
		cmd := swarmCommand(t, home, append([]string{"export"}, x.args...)...)
		cmd.Dir = here
		o := finish(t, cmd)
		require.Equal(t, x.code, o.code, "%v: %s", x.args, o.stderr)
		require.Equal(t, x.code == 0, strings.Contains(o.stdout, "base-0"), x.args)
	}
	left, err := os.ReadDir(here)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestExportRefusals(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "a"), nil, 0o600))
	for _, x := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--format", "xml"}, fail.ExitUsage, `"xml"`},
		{[]string{"--table", "secrets"}, fail.ExitUsage, `"secrets"`},
		{nil, fail.ExitUsage, "--out is missing: name the place for the tables\nTry: swarm export --out swarm-export\n"},
		{[]string{"--format", "sqlite"}, fail.ExitUsage, "--out is missing: name the place for the database"},
		{[]string{"--format", "tensorboard"}, fail.ExitUsage, "Try: swarm export --format tensorboard --out swarm-export\n"},
		{[]string{"--table", "runs", "-o", "json"}, fail.ExitUsage, "--out is missing"},
		{[]string{"--out", "", "--table", "runs"}, fail.ExitUsage, "--out is missing"},
		{[]string{"--out", "-"}, fail.ExitUsage, "one table"},
		{[]string{"--out", "-", "--table", "runs,rounds"}, fail.ExitUsage, "one table"},
		{[]string{"--out", "-", "--table", "runs", "-o", "json"}, fail.ExitUsage, "both write to stdout"},
		{[]string{"--format", "tensorboard", "--table", "runs"}, fail.ExitUsage, "has no tables"},
		{[]string{"--out", filepath.Join(foreign, "x", "r.csv")}, fail.ExitUsage, "which holds one table"},
		{[]string{"--out", filepath.Join(foreign, "r.json"), "--table", "runs"}, fail.ExitUsage, "ends in its format's name, csv"},
		{[]string{"nosuch", "--table", "runs"}, fail.ExitUsage, `"nosuch"`},
		{[]string{"--out", foreign}, fail.ExitFailed, "not a swarm export"},
		{[]string{"--out", "/proc/none/x"}, fail.ExitFailed, "can't write /proc/none/x: no such file or directory\nTry: another --out"},
	} {
		o := swarm(t, home, append([]string{"export"}, x.args...)...)
		require.Equal(t, x.code, o.code, "%v: %s", x.args, o.stderr)
		require.Contains(t, o.stderr, x.text, x.args)
		require.Empty(t, o.stdout)
	}
	require.Equal(t, fail.ExitFailed, swarm(t, t.TempDir(), "export", "--table", "runs").code)
}

// oldFolder is a small rl-swarm folder: two workers, I/J 4/4, G 8, the given rounds. Its log has every reward twice.
func oldFolder(t *testing.T, name string, rounds int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	put := func(file, text string) {
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	put("config.yaml", "training.max_round: 3\ntraining.num_generations: 8\ntraining.num_train_samples: 4\ntraining.num_transplant_trees: 4\n"+
		"training.seed: 42\n")
	for n := 1; n <= 2; n++ {
		log := ""
		for round := range rounds {
			row := fmt.Sprintf(`{"timestamp": %f, "round": %d, "stage": 0, "node_id": "node_%d", "peer_id": "node_%[3]d", "my_reward": %f}`+"\n",
				1763545200.5+60*float64(round), round, n, float64(n*(round+1)))
			log += row + row
			put(fmt.Sprintf("rewards/round_%d/stage_0/node_%d.json", round, n), fmt.Sprintf(
				`{"round": %d, "stage": 0, "reward": %d, "peer_id": "node_%d", "submitted_at": %f}`, round, n*(round+1), n, 1763545201+60*float64(round)))
		}
		put(fmt.Sprintf("logs/node_%d/metrics.jsonl", n), log)
	}
	return dir
}

func TestImportedRunsStandBesideOnesOwn(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3, 0.31)...)
	dir := oldFolder(t, "old-4loc4ext", 3)
	o := swarm(t, home, "import", dir, "--model", "gpt2", "--dry-run")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "would be imported")
	require.Contains(t, o.stdout, "6 duplicate records counted once")
	require.NotContains(t, swarm(t, home, "compare").stdout, "old-4loc4ext", "a dry run records nothing")

	for _, want := range []string{"new", "unchanged"} {
		o = swarm(t, home, "import", dir, "--model", "gpt2", "-o", "json")
		require.Equal(t, 0, o.code, o.stderr)
		var d []rlswarm.Imported
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
		require.Equal(t, []any{want, "done", 2, 3, 6, 6}, []any{d[0].Outcome, d[0].State, d[0].Nodes, d[0].Rounds, d[0].NodeRounds, d[0].Doubled})
	}
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(swarm(t, home, "compare", "-o", "json").stdout), &c))
	require.Len(t, c.Rows, 2)
	row := c.Rows[1]
	require.Equal(t, []any{"old-4loc4ext", "4/4", 1, 2, 3}, []any{row.Experiment, row.Config, row.Runs, row.Nodes, row.Rounds})
	require.InDelta(t, (1+2)*(1+2+3)/32.0, row.CumulativeReward, 1e-12, "the mean over 32 completions, not their sum")
	o = swarm(t, home, "status", "old-4loc4ext")
	require.Contains(t, o.stdout, `imported from rl-swarm's folder "old-4loc4ext"`)
	report := filepath.Join(t.TempDir(), "r.html")
	require.Equal(t, 0, swarm(t, home, "report", "--out", report).code)

	o = swarm(t, home, "export", "old-4loc4ext", "--table", "imported_rounds", "--out", "-")
	sums := 0.0
	records, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	for _, r := range records[1:] {
		v, err := strconv.ParseFloat(r[3], 64)
		require.NoError(t, err)
		sums += v
	}
	require.True(t, math.Abs(sums-18) < 1e-12, "the sums are kept: %v", sums)
}

func TestImportNamesWhatItSkipsAndRefuses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := oldFolder(t, "half", 2)
	torn := filepath.Join(dir, "rewards/round_1/stage_0/node_1.json")
	require.NoError(t, os.WriteFile(torn, []byte(`{"round": 1`), 0o600))
	o := swarm(t, home, "import", dir)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, `Skipped "rewards/round_1/stage_0/node_1.json": it is truncated or not JSON`)
	require.Contains(t, o.stderr, "Assumed: no model")
	require.Contains(t, o.stdout, "stopped")
	require.Contains(t, o.stdout, "1 files or lines skipped")

	empty := t.TempDir()
	for _, x := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{filepath.Join(empty, "nosuch")}, fail.ExitUsage, "no such file"},
		{[]string{empty}, fail.ExitFailed, "no round is recorded there"},
		{[]string{}, fail.ExitUsage, "one file or folder"},
		{[]string{dir, "--name", "a/b"}, fail.ExitUsage, `"a/b"`},
		{[]string{dir, "--num-generations", "0"}, fail.ExitUsage, "num-generations"},
	} {
		o := swarm(t, home, append([]string{"import"}, x.args...)...)
		require.Equal(t, x.code, o.code, "%v: %s", x.args, o.stderr)
		require.Contains(t, o.stderr, x.text)
	}
}
