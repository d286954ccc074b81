package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/figures"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestAnExportedDatabaseIsReadAsItsHome(t *testing.T) {
	t.Parallel()
	home := twoExperiments(t)
	small := filepath.Join(t.TempDir(), "small.db.gz")
	o := swarm(t, home, "export", "--format", "sqlite", "--out", small, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc export.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.Equal(t, []any{small, "sqlite", 8}, []any{doc.Path, doc.Format, doc.Runs})

	elsewhere := t.TempDir() // a home without runs
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
	var doc struct{ Figures []figures.File }
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

func TestFiguresOfAStudyComeWithItsVerdict(t *testing.T) {
	t.Parallel()
	home, dir := paperHome(t), t.TempDir()
	o := swarm(t, home, "report", "--study", "paper", "--figures", dir)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "rewards-smoothed.svg")
	require.Contains(t, o.stdout, "\n"+paperLead+"\n")
	o = swarm(t, home, "report", "--study", "paper", "--figures", dir, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc figuresDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.Equal(t, paperLead, doc.Study.Verdict)
	require.NotEmpty(t, doc.Figures)
}

// A run that is still running here counts as ended in its export, even on the machine that exported it.
func TestAnExportedRunIsNoRunningOne(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	host, err := os.Hostname()
	require.NoError(t, err)
	self, err := supervise.Identify(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "x-1", Experiment: "x", Started: event.Now(), NodeIDs: []string{"node_0"}, Rounds: 3,
		Host: host, PID: self.PID, StartTicks: int64(self.Start), BootID: self.Boot}))
	require.NoError(t, s.Flush(t.Context()))
	elsewhere := t.TempDir()
	o := swarm(t, home, "export", "--format", "sqlite", "--out", filepath.Join(elsewhere, "swarm.db"))
	require.Zero(t, o.code, o.stderr)
	for dir, want := range map[string]string{home: "running", elsewhere: "crashed"} {
		o := swarm(t, dir, "status", "x", "-o", "json")
		require.Zero(t, o.code, o.stderr)
		var status struct{ State string }
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &status))
		require.Equal(t, want, status.State)
	}
}

func TestDatabasesAndFiguresThatAreRefused(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, append(threeSeeds("own1", 4, 0.40), comparedRun{experiment: "blank", left: 20})...)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no database"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such file":        {[]string{"compare", "--database", text + "2"}, fail.ExitUsage, "does not exist"},
		"text":                {[]string{"report", "--database", text}, fail.ExitUsage, "not a swarm database"},
		"a folder":            {[]string{"curve", "--database", filepath.Dir(text)}, fail.ExitUsage, filepath.Dir(text)},
		"unknown experiment":  {[]string{"report", "nobody", "--figures", filepath.Join(filepath.Dir(text), "f")}, fail.ExitUsage, "nobody"},
		"a file for a folder": {[]string{"report", "--figures", text}, fail.ExitFailed, "can't write figures"},
		"no folder":           {[]string{"report", "--figures="}, fail.ExitUsage, "figures"},
		"nothing to draw":     {[]string{"report", "blank", "--figures", filepath.Join(filepath.Dir(text), "f")}, fail.ExitFailed, "there is nothing to draw"},
		"tables of sqlite":    {[]string{"export", "--format", "sqlite", "--table", "rounds"}, fail.ExitUsage, "--table"},
		"a stranger's file":   {[]string{"export", "--format", "sqlite", "--out", text}, fail.ExitFailed, "is not a swarm export"},
		"the home's own":      {[]string{"export", "--format", "sqlite", "--force", "--out", filepath.Join(home, "swarm.db")}, fail.ExitFailed, "never replaced"},
	} {
		o := swarm(t, home, c.args...)
		require.Equal(t, c.code, o.code, "%s: %s", name, o.stderr)
		require.Contains(t, o.stderr, c.says, name)
	}
}

// The studies' exports and figures in docs: every export has its figures, every figure its export.
func TestCommittedFiguresAreTheirStudies(t *testing.T) {
	t.Parallel()
	const docs = "../../docs"
	if info, err := os.Stat(docs + "/study"); err == nil && info.IsDir() {
		files, err := filepath.Glob(docs + "/study/*.db.gz")
		require.NoError(t, err)
		require.NotEmpty(t, files, "docs/study is there for a study's export")
	}
	require.NoError(t, figuresOf(t, docs), "make figures")
}

// The check above finds mistakes.
func TestFiguresWithoutTheirStudyAreFound(t *testing.T) {
	t.Parallel()
	docs := t.TempDir()
	require.NoError(t, os.MkdirAll(docs+"/study", 0o755))
	o := swarm(t, paperHome(t), "export", "--study", "paper", "--format", "sqlite", "--out", docs+"/study/paper.db.gz")
	require.Zero(t, o.code, o.stderr)
	require.ErrorContains(t, figuresOf(t, docs), "no figures")
	o = swarm(t, t.TempDir(), "report", "--database", docs+"/study/paper.db.gz", "--study", "paper", "--figures", docs+"/figures/paper")
	require.Zero(t, o.code, o.stderr)
	require.NoError(t, figuresOf(t, docs))
	left := docs + "/figures/paper/former.svg"
	require.NoError(t, os.WriteFile(left, []byte("<svg/>"), 0o600))
	require.ErrorContains(t, figuresOf(t, docs), "former.svg")
	require.NoError(t, os.Rename(left, docs+"/figures/former.svg"))
	require.ErrorContains(t, figuresOf(t, docs), "former.svg")
	require.NoError(t, os.Remove(docs+"/figures/former.svg"))
	require.NoError(t, os.WriteFile(docs+"/figures/paper/rewards-by-node.svg", []byte("<svg/>"), 0o600))
	if runtime.GOARCH == "amd64" {
		require.ErrorContains(t, figuresOf(t, docs), "rewards-by-node.svg isn't what")
	}
}

// committedRun is the maximum bytes per run of an export in docs.
const committedRun = 200 << 10

// figuresOf compares the figures in docs with figures drawn from the exports in docs. It compares bytes only on
// amd64, because compilers for other architectures may round differently.
func figuresOf(t *testing.T, docs string) error {
	t.Helper()
	files, err := filepath.Glob(docs + "/study/*.db.gz")
	require.NoError(t, err)
	expected := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".db.gz")
		study, model, _ := strings.Cut(name, ".")
		args := []string{"report", "--database", file, "--study", study, "--figures", t.TempDir(), "-o", "json"}
		if model != "" {
			args = append(args, "--model", model)
		}
		o := swarm(t, t.TempDir(), args...)
		require.Zero(t, o.code, "%s: %s", file, o.stderr)
		var doc figuresDocument
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
		require.NotEmpty(t, doc.Figures)
		info, err := os.Stat(file)
		require.NoError(t, err)
		runs := 0
		for _, arm := range doc.Study.Arms {
			runs += arm.Runs
		}
		for _, x := range doc.Study.Explored {
			runs += len(x.Seeds)
		}
		if info.Size() > int64(runs)*committedRun {
			return fmt.Errorf("%s has %d bytes for %d runs: what is committed stays small", file, info.Size(), runs)
		}
		for _, f := range doc.Figures {
			committed := filepath.Join(docs, "figures", name, filepath.Base(f.Path))
			expected[committed] = true
			want, err := os.ReadFile(f.Path)
			require.NoError(t, err)
			got, err := os.ReadFile(committed)
			if err != nil {
				return fmt.Errorf("%s has no figures: %w", file, err)
			}
			if runtime.GOARCH == "amd64" && !bytes.Equal(want, got) {
				return fmt.Errorf("%s isn't what %s gives", committed, file)
			}
		}
	}
	return filepath.WalkDir(docs+"/figures", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && filepath.Ext(path) == ".svg" && !expected[filepath.Clean(path)]:
			return fmt.Errorf("%s is of no export in docs/study", path)
		}
		return err
	})
}
