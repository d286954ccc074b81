package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// twoExperiments is a home with two experiments of four seeds each.
func twoExperiments(t *testing.T) string {
	t.Helper()
	return comparedHome(t, append(threeSeeds("own0", 0, 0.10, 0.11, 0.12, 0.13), threeSeeds("own1", 4, 0.40, 0.41, 0.43, 0.42)...)...)
}

func TestReportWritesOneFile(t *testing.T) {
	t.Parallel()
	home, out := twoExperiments(t), filepath.Join(t.TempDir(), "r.html")
	require.NoError(t, os.WriteFile(out, []byte("what was there"), 0o600))
	o := swarm(t, home, "report", "--out", out, "--title", "A <title>")
	require.Zero(t, o.code, o.stderr)
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("wrote %s: runs 8, %d kB\n", out, (len(page)+500)/1000), o.stdout)
	require.True(t, bytes.HasPrefix(page, []byte("<!doctype html>")))
	require.Contains(t, string(page), "<title>A &lt;title&gt;</title>")
	require.Contains(t, string(page), "own1 (4/4) is highest, and better than the baseline own0 (8/0)")
}

func TestReportAsJSONSaysWhereItIs(t *testing.T) {
	t.Parallel()
	home, out := twoExperiments(t), filepath.Join(t.TempDir(), "r.html")
	o := swarm(t, home, "report", "own1", "--baseline", "own0", "--out", out, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc reportDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.Equal(t, out, doc.Path)
	require.Equal(t, []string{"own0", "own1"}, doc.Experiments)
	require.Equal(t, 8, doc.Runs)
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	home := twoExperiments(t)
	empty := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(empty, "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "swarm.db"), []byte("no database"), 0o600))
	out := filepath.Join(t.TempDir(), "r.html")
	for name, c := range map[string]struct {
		home string
		args []string
		code int
		want string
	}{
		"no database":         {t.TempDir(), []string{"report", "--out", out}, fail.ExitFailed, "Error: nothing has run under "},
		"empty database":      {empty, []string{"report", "--out", out}, fail.ExitFailed, "Error: no run is recorded yet\n"},
		"foreign file":        {foreign, []string{"report", "--out", out}, fail.ExitFailed, "not a swarm database"},
		"unknown experiment":  {home, []string{"report", "nosuch", "--out", out}, fail.ExitUsage, `Error: no experiment "nosuch" is recorded` + "\n"},
		"unknown baseline":    {home, []string{"report", "--baseline", "nosuch", "--out", out}, fail.ExitUsage, `"nosuch"`},
		"window of nothing":   {home, []string{"report", "--window", "0", "--out", out}, fail.ExitUsage, "window"},
		"unknown measure":     {home, []string{"report", "--measure", "luck", "--out", out}, fail.ExitUsage, "luck"},
		"folder not there":    {home, []string{"report", "--out", filepath.Join(home, "no", "r.html")}, fail.ExitFailed, "no such file or directory"},
		"a folder there":      {home, []string{"report", "--out", home}, fail.ExitFailed, "it is a folder\nTry: --out "},
		"two things to print": {home, []string{"report", "--out", "-", "-o", "json"}, fail.ExitUsage, "both write to stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			o := swarm(t, c.home, c.args...)
			require.Equal(t, c.code, o.code, o.stderr)
			require.Contains(t, o.stderr, c.want)
			require.Empty(t, o.stdout)
			require.LessOrEqual(t, strings.Count(o.stderr, "\n"), 2, "one line, and one of what to try")
		})
	}
	_, err = os.Stat(out)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is written where there is nothing to report")
}
