package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Two machines do one sweep: the first exports its finished runs to a file, and the second runs the rest.
func TestASweepGoesOnInAnotherHome(t *testing.T) {
	t.Parallel()
	names := []string{"8loc0ext", "4loc4ext"}
	first, second := t.TempDir(), t.TempDir()
	args := func(seeds string) []string { return sweepArgs(names, "--rounds", "2", "--seeds", seeds, "-o", "json") }
	o := swarm(t, first, args("1,")...)
	require.Equal(t, 0, o.code, o.stderr)
	file := filepath.Join(t.TempDir(), "runs.db.gz")
	o = swarm(t, first, "export", "--format", "sqlite", "--out", file)
	require.Equal(t, 0, o.code, o.stderr)

	o = swarm(t, second, "import", file, "--dry-run")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "8loc0ext-1: seed 1, 2 nodes, 2 of 2 rounds, done: would be imported\n")
	require.Contains(t, o.stdout, "would import 2 of 2 runs\n")
	require.NoFileExists(t, filepath.Join(second, "swarm.db"))

	o = swarm(t, second, "import", file, "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var runs []store.ImportedRun
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &runs))
	require.Len(t, runs, 2)
	o = swarm(t, second, "import", file)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "done: imported before\nimported 0 of 2 runs\n")

	o = swarm(t, second, args("1,2")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, []string{"8loc0ext/2", "4loc4ext/2"}, parseSweep(t, o.stdout).order())
	require.Equal(t, 4, parseSweep(t, o.stdout).summary.Done)
	whole := swarm(t, second, "compare", "8loc0ext", "4loc4ext", "-o", "json")
	require.Equal(t, 0, whole.code, whole.stderr)
	var both struct {
		Rows []struct {
			Experiment string
			Runs       int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(whole.stdout), &both))
	require.Len(t, both.Rows, 2)
	require.Equal(t, 2, both.Rows[0].Runs, "the imported seed and this home's")

	o = swarm(t, second, "verify", "8loc0ext-1")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "was imported: its nodes' weights and journals are not here")
	o = swarm(t, second, args("1,")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, parseSweep(t, o.stdout).order())
	longer := sweepArgs([]string{"8loc0ext"}, "--rounds", "3", "--seeds", "1,", "-o", "json")
	o = swarm(t, second, longer...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, []string{"8loc0ext/1"}, parseSweep(t, o.stdout).order(), "a run that can't go on here is run from its beginning")
	other := swarm(t, second, sweepArgs([]string{"4loc4ext"}, "--rounds", "2", "--seeds", "1,", "--temperature", "0.5")...)
	require.Equal(t, 2, other.code, other.stdout)
	require.Contains(t, other.stderr, "does not match this command, which has another configuration:\n  temperature 1 → 0.5")
	more := swarm(t, second, sweepArgs([]string{"4loc4ext"}, "--rounds", "2", "--seeds", "1,", "--nodes", "3")...)
	require.Equal(t, 2, more.code, more.stdout)
	require.Contains(t, more.stderr, "nodes 2 → 3")
}

// Imported runs must have been made with the same weights and questions, wherever those files were.
func TestASweepRefusesImportedRunsOfOtherQuestions(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	text, err := os.ReadFile(items())
	require.NoError(t, err)
	args := func(file string) []string {
		return sweepArgs([]string{"8loc0ext"}, "--rounds", "1", "--seeds", "1,", "--set", "tasks.file="+file, "-o", "json")
	}
	o := swarm(t, first, args(items())...)
	require.Equal(t, 0, o.code, o.stderr)
	export := filepath.Join(t.TempDir(), "runs.db")
	require.Equal(t, 0, swarm(t, first, "export", "--format", "sqlite", "--out", export).code)
	require.Equal(t, 0, swarm(t, second, "import", export).code)

	moved := filepath.Join(t.TempDir(), strings.Repeat("a-long-name-of-a-folder", 5), filepath.Base(items()))
	require.NoError(t, os.MkdirAll(filepath.Dir(moved), 0o755))
	require.NoError(t, os.WriteFile(moved, text, 0o644))
	o = swarm(t, second, args(moved)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, parseSweep(t, o.stdout).order(), "the same questions in another folder")

	require.NoError(t, os.WriteFile(moved, append(text, text...), 0o644))
	o = swarm(t, second, args(moved)...)
	require.Equal(t, 2, o.code, o.stderr)
	require.Contains(t, o.stderr, "this command, which has other contents of tasks.file")
}

// spoiledExport is an export with an experiment name that points outside its folder.
func spoiledExport(t *testing.T, path string) {
	t.Helper()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "x-1", Experiment: "../x", Started: 1}))
	require.NoError(t, s.Close())
	o := swarm(t, home, "export", "--format", "sqlite", "--out", path)
	require.Equal(t, 0, o.code, o.stderr)
}

func TestBadFilesToImport(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.db")
	require.NoError(t, os.WriteFile(text, []byte("not a database"), 0o644))
	hostile := filepath.Join(dir, "hostile.db.gz")
	spoiledExport(t, hostile)
	for _, x := range []struct {
		name string
		args []string
		want string
	}{
		{"no database", []string{"import", text}, "Error: database " + text + ": not a swarm database"},
		{"nothing", []string{"import", filepath.Join(dir, "none.db.gz")}, "Error: import " + filepath.Join(dir, "none.db.gz") + ": no such file or directory\nTry: a file of swarm export"},
		{"hostile", []string{"import", hostile}, "Error: database " + hostile + `: damaged: "../x" is not an experiment name` + "\nTry: a file of swarm export"},
		{"two", []string{"import", text, text}, "takes one file or folder"},
		{"a folder's flag", []string{"import", text, "--max-rounds", "3"}, "--max-rounds is for rl-swarm folders"},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := swarm(t, home, x.args...)
			require.Equal(t, 2, o.code, o.stderr)
			require.Contains(t, o.stderr, x.want)
		})
	}
}
