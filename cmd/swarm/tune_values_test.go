package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job/tune"
)

// ownProfile is a folder with docs/TUNE.md's profile, unchanged, and its config.yaml.
func ownProfile(t *testing.T, length string) (dir, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/TUNE.md")
	require.NoError(t, err)
	_, profile, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	profile, _, _ = strings.Cut(profile, "```")
	require.Len(t, strings.Split(strings.TrimSpace(profile), "\n"), 10, "ten lines")
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(profile), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"),
		[]byte("train:\n  batch_size: 32\n  accumulate: 4\ndata:\n"+length), 0o600))
	return dir, string(text)
}

// The profile of docs/TUNE.md uses the values of config.yaml, and says so.
func TestTuneProfileOfOnesOwn(t *testing.T) {
	t.Parallel()
	dir, page := ownProfile(t, "  length: 1024\n")
	mine := filepath.Join(dir, "mine.yaml")
	d := tuneJSON(t, dir, "--workload", mine, "--gpu-memory", "24", "--dir", dir)
	require.Equal(t, []int{173, 1}, []int{d.Batch, d.Accumulate})
	require.Equal(t, tune.EstimateFormula, d.Estimate)
	require.Equal(t, []string{"the effective batch is 173 instead of 256; batch_size 128 with accumulate 2 gives 256"}, d.Warnings)
	require.Contains(t, page, "173 × 1")

	dir, _ = ownProfile(t, "  length: 4096\n")
	o := swarm(t, dir, "tune", "--workload", mine, "--gpu-memory", "24", "--dir", dir)
	require.Zero(t, o.code, o.stderr)
	_, sources, _ := strings.Cut(o.stdout, "\nValues and their sources:\n")
	sources, _, _ = strings.Cut(sources, "\n\n")
	require.Equal(t, `  batch_size  43    computed; config.yaml:2 has 32
  accumulate  5     computed; config.yaml:3 has 4
  length      4096  config.yaml:5`, sources)
	require.Contains(t, page, sources, "the page shows it")
	require.Contains(t, o.stdout, "swarm tune --workload "+mine+" --gpu-memory 24 --dir "+dir+" --apply", "the same question")

	d = tuneJSON(t, dir, "--workload", mine, "--gpu-memory", "24", "--dir", dir, "--set", "length=1024")
	require.Equal(t, 173, d.Batch, "a flag comes before the file")
	length := d.Values[2]
	require.Equal(t, []any{"length", "1024", "--set", "config.yaml", 5, "4096", false}, []any{length.Name, length.Value, length.Source, length.File,
		length.Line, length.Current, length.Assumed})
}

// tune writes nothing while the estimate assumes a value that is unknown. A dry run still shows it, and --set
// confirms it.
func TestTuneAppliesOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	for data, why := range map[string]string{
		"  size: 5\n":                 "the file lacks the key data.length (config.yaml): add it with a value, or name another key",
		"  length: ${model.length}\n": "config.yaml:5 has ${model.length}, which is not a plain number",
	} {
		dir, _ := ownProfile(t, data)
		tune := []string{"tune", "--workload", filepath.Join(dir, "mine.yaml"), "--gpu-memory", "24", "--dir", dir}
		path := filepath.Join(dir, "config.yaml")
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		o := swarm(t, dir, append(tune, "--apply")...)
		require.Equal(t, outcome{2, "", "Error: nothing is written: the memory estimate assumes length 1024 (" + why + ")\n" +
			"Try: --dir with the training's folder, or if the values are right: --set length=1024\n"}, o)
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(before), string(now))
		o = swarm(t, dir, tune...)
		require.Contains(t, o.stdout, "--apply writes nothing until the assumed values are in the files or --set gives them.\n")
		require.NotContains(t, o.stdout, " --apply\n", "what would be refused is not proposed")

		o = swarm(t, dir, append(tune, "--dry-run")...)
		require.Zero(t, o.code, o.stderr)
		require.Contains(t, o.stdout, "+  batch_size: 173")
		require.Contains(t, o.stdout, "length      1024  profile's default, assumed: "+why)

		o = swarm(t, dir, append(tune, "--apply", "--set", "length=2048")...)
		require.Zero(t, o.code, o.stderr)
		require.Contains(t, o.stdout, "length      2048  --set, not written: "+why)
		now, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.NewReplacer("batch_size: 32", "batch_size: 86", "accumulate: 4", "accumulate: 2").Replace(string(before)), string(now))
		require.Zero(t, swarm(t, dir, "tune", "--undo", "--dir", dir).code)
		now, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(before), string(now))
	}
}

// Guide 2's files: conf/config.yaml has the sequence length and the GPUs, each stage its negatives.
func TestTuneReadsGuide2sFiles(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), trainingFolder(t)
	change := func(file, from, to string) {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), from)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	}
	ask := func(args ...string) tune.Document {
		return tuneJSON(t, home, append([]string{"--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir}, args...)...)
	}
	require.Equal(t, 45, ask().Batch)
	change("conf/config.yaml", "max_length: 512", "max_length: 2048")
	require.Equal(t, 5, ask().Batch)
	change("conf/config.yaml", "max_length: 2048", "max_length: 256")
	d := ask()
	require.Equal(t, []int{116, 2}, []int{d.Batch, d.Accumulate})
	change("conf/config.yaml", "devices: 1", "devices: 2")
	d = ask()
	require.Equal(t, []int{2, 116, 1, 232}, []int{d.Devices, d.Batch, d.Accumulate, d.EffectiveBatch})

	// If stages of one group differ, the message lists them.
	change("conf/text_curriculum/04_stage.yaml", "n_negatives: 8", "n_negatives: 64")
	o := swarm(t, home, "tune", "--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir, "--apply")
	require.Equal(t, fail.ExitUsage, o.code, o.stdout)
	require.Contains(t, o.stderr, "the memory estimate assumes n_negatives 64 in stage 02-05 (conf/text_curriculum/02_stage.yaml:4 has 8 and "+
		"conf/text_curriculum/04_stage.yaml:4 has 64)")
}
