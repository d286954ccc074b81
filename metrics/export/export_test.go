package export

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestAnExportReplacesOnlyItsOwn(t *testing.T) {
	reader, runs := database(t, 1, 2, 3)
	dir := filepath.Join(t.TempDir(), "a", "b")
	files, err := Folder(t.Context(), reader, dir, Options{Format: FormatCSV, Runs: runs, Tables: []string{"runs", "rounds"}})
	require.NoError(t, err)
	require.Equal(t, []string{"runs.csv", "rounds.csv"}, []string{files[0].Path, files[1].Path})
	require.Equal(t, []string{"rounds.csv", "runs.csv", "swarm-export.json"}, names(t, dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o600))
	_, err = Folder(t.Context(), reader, dir, Options{Format: FormatTensorBoard, Runs: runs})
	require.NoError(t, err)
	require.Equal(t, []string{"mine.txt", "swarm-export.json", "x-0"}, names(t, dir), "the former export's files are gone, others stay")
	_, err = Folder(t.Context(), reader, dir, Options{Format: FormatJSONL, Runs: runs, Tables: []string{"rounds"}})
	require.NoError(t, err)
	require.Equal(t, []string{"mine.txt", "rounds.jsonl", "swarm-export.json"}, names(t, dir), "empty folders go too")
}

func TestAForeignFolderIsLeftAlone(t *testing.T) {
	reader, runs := database(t, 1, 1, 2)
	dir := t.TempDir()
	precious := filepath.Join(dir, "rounds.csv")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	o := Options{Format: FormatCSV, Runs: runs, Tables: []string{"rounds", "runs"}}
	_, err := Folder(t.Context(), reader, dir, o)
	var foreign *ForeignError
	require.ErrorAs(t, err, &foreign)
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	require.Equal(t, []string{"rounds.csv"}, names(t, dir))
	o.Force = true
	_, err = Folder(t.Context(), reader, dir, o)
	require.NoError(t, err)
	require.Equal(t, []string{"rounds.csv", "runs.csv", "swarm-export.json"}, names(t, dir))
}

// A forged manifest cannot make an export remove files elsewhere.
func TestAManifestNamesNothingBeyondItsFolder(t *testing.T) {
	reader, runs := database(t, 1, 1, 2)
	parent := t.TempDir()
	dir, other := filepath.Join(parent, "out"), filepath.Join(parent, "other")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Symlink(parent, filepath.Join(dir, "link")))
	text, err := json.Marshal(manifest{Kind: manifestKind, Files: []File{{Path: "../other"}, {Path: other}, {Path: "."}, {Path: "gone.csv"}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), text, 0o600))
	_, err = Folder(t.Context(), reader, dir, Options{Format: FormatCSV, Runs: runs, Tables: []string{"runs"}})
	require.NoError(t, err)
	require.FileExists(t, other)
	text, err = json.Marshal(manifest{Kind: manifestKind, Files: []File{{Path: "link/other"}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), text, 0o600))
	_, err = Folder(t.Context(), reader, dir, Options{Format: FormatCSV, Runs: runs, Tables: []string{"runs"}})
	require.ErrorContains(t, err, "escapes")
	require.FileExists(t, other)
}

func TestAnInterruptedExportLeavesNoHalfFile(t *testing.T) {
	reader, runs := database(t, 1, 2, 50)
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Folder(ctx, reader, dir, Options{Format: FormatCSV, Runs: runs, Tables: store.Tables()})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, names(t, dir))
}

func TestTableFile(t *testing.T) {
	reader, runs := database(t, 1, 2, 3)
	path := filepath.Join(t.TempDir(), "r.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	files, err := TableFile(t.Context(), reader, path, FormatCSV, "rounds", runs)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []File{{"r.csv", 6, int64(len(text))}}, files)
	_, err = TableFile(t.Context(), reader, filepath.Join(path, "x.csv"), FormatCSV, "rounds", runs)
	require.Error(t, err)
}

func TestNamesOfTables(t *testing.T) {
	got, err := Tables([]string{"tasks", "rounds", "task_rewards", "questions"})
	require.NoError(t, err)
	require.Equal(t, []string{"task_rewards", "rounds", "eval_questions"}, got)
	all, err := Tables(nil)
	require.NoError(t, err)
	require.Equal(t, store.Tables(), all)
	_, err = Tables([]string{"runs; DROP TABLE runs"})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestFolderNamesAreSafeAndUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := safeNames{}
		seen := map[string]bool{}
		likely := rapid.SampledFrom([]string{"..", "", "a/b", "a_b", "A_B", "node_0"})
		for _, name := range rapid.SliceOfN(rapid.OneOf(rapid.String(), likely), 1, 30).Draw(t, "names") {
			got := s.take(name)
			require.True(t, filepath.IsLocal(got) && got == filepath.Base(got) && got != "." && len(got) <= 128, "%q -> %q", name, got)
			require.False(t, seen[strings.ToLower(got)])
			seen[strings.ToLower(got)] = true
		}
	})
}

// BenchmarkExport measures the export of 4 x 8 x 2000 rounds in each format.
func BenchmarkExport(b *testing.B) {
	reader, runs := database(b, 4, 8, 2000)
	for _, format := range []string{FormatCSV, FormatJSONL, FormatTensorBoard} {
		b.Run(format, func(b *testing.B) {
			for b.Loop() {
				dir, began := b.TempDir(), time.Now()
				_, err := Folder(b.Context(), reader, dir, Options{Format: format, Runs: runs, Tables: store.Tables()})
				require.NoError(b, err)
				b.ReportMetric(time.Since(began).Seconds(), "s/export")
			}
		})
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
