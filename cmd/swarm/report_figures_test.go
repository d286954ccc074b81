package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnExportedDatabaseIsReadAsItsHome(t *testing.T) {
	t.Parallel()
	home := twoExperiments(t)
	small := filepath.Join(t.TempDir(), "small.db.gz")
	o := swarm(t, home, "export", "--format", "sqlite", "--out", small, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc exportDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.Equal(t, []any{small, "sqlite", 6}, []any{doc.Path, doc.Format, doc.Runs})

	elsewhere := t.TempDir() // where nothing has run
	compared := swarm(t, home, "compare", "-o", "json")
	again := swarm(t, elsewhere, "compare", "--database", small, "-o", "json")
	require.Zero(t, again.code, again.stderr)
	require.Equal(t, compared.stdout, again.stdout)
	require.Equal(t, swarm(t, home, "curve", "own1", "-o", "json").stdout, swarm(t, elsewhere, "curve", "own1", "--database", small, "-o", "json").stdout)
	page := filepath.Join(t.TempDir(), "r.html")
	o = swarm(t, elsewhere, "report", "--database", small, "--out", page)
	require.Zero(t, o.code, o.stderr)
	require.FileExists(t, page)
}

func TestReportDrawsFigures(t *testing.T) {
	t.Parallel()
	home, dir := twoExperiments(t), filepath.Join(t.TempDir(), "a", "figures")
	o := swarm(t, home, "report", "own1", "own0", "--figures", dir, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc struct{ Figures []figureFile }
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.NotEmpty(t, doc.Figures)
	for _, f := range doc.Figures {
		svg, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		require.Equal(t, f.Bytes, len(svg))
		require.True(t, bytes.HasPrefix(svg, []byte("<?xml")))
	}
	page := filepath.Join(t.TempDir(), "r.html")
	o = swarm(t, home, "report", "--figures", dir, "--out", page)
	require.Zero(t, o.code, o.stderr)
	require.FileExists(t, page, "both where both are asked for")
	require.Contains(t, o.stdout, "rewards-smoothed.svg")
}

func TestDatabasesAndFiguresThatAreRefused(t *testing.T) {
	t.Parallel()
	home := twoExperiments(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no database"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such file":        {[]string{"compare", "--database", text + "2"}, exitUsage, "there is no database"},
		"text":                {[]string{"report", "--database", text}, exitUsage, "not a swarm database"},
		"a folder":            {[]string{"curve", "--database", filepath.Dir(text)}, exitUsage, filepath.Dir(text)},
		"unknown experiment":  {[]string{"report", "nobody", "--figures", filepath.Join(filepath.Dir(text), "f")}, exitUsage, "nobody"},
		"a file for a folder": {[]string{"report", "--figures", text}, exitFailed, "can't write figures"},
		"tables of sqlite":    {[]string{"export", "--format", "sqlite", "--table", "rounds"}, exitUsage, "--table"},
		"a stranger's file":   {[]string{"export", "--format", "sqlite", "--out", text}, exitFailed, "no export of this program's"},
		"the home's own":      {[]string{"export", "--format", "sqlite", "--force", "--out", filepath.Join(home, "swarm.db")}, exitFailed, "never replaced"},
	} {
		o := swarm(t, home, c.args...)
		require.Equal(t, c.code, o.code, "%s: %s", name, o.stderr)
		require.Contains(t, o.stderr, c.says, name)
	}
}

// The figures in docs are those that `make figures` draws of the exports beside them.
func TestCommittedFiguresAreTheirStudies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/study/*.db.gz")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".db.gz")
		study, model, _ := strings.Cut(name, ".")
		args := []string{"report", "--database", file, "--study", study, "--figures", t.TempDir(), "-o", "json"}
		if model != "" {
			args = append(args, "--model", model)
		}
		o := swarm(t, t.TempDir(), args...)
		require.Zero(t, o.code, "%s: %s", file, o.stderr)
		var doc struct{ Figures []figureFile }
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
		require.NotEmpty(t, doc.Figures)
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(3<<20), "%s: what is committed stays small", file)
		for _, f := range doc.Figures {
			want, err := os.ReadFile(f.Path)
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join("../../docs/figures", name, filepath.Base(f.Path)))
			require.NoError(t, err, "make figures")
			require.True(t, bytes.Equal(want, got), "%s of %s isn't what its export gives: make figures", filepath.Base(f.Path), name)
		}
	}
}
