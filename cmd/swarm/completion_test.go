package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// offers returns the completions after `swarm WORDS`, each with its description after a tab.
func offers(t *testing.T, words ...string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(helpOf(t, append([]string{"__complete"}, words...)...)), "\n")
	return lines[:len(lines)-1] // the last is the directive
}

func TestPresetsStudiesAndValuesAreOffered(t *testing.T) {
	t.Setenv("SWARM_HOME", t.TempDir())
	require.Contains(t, offers(t, "up", ""), "4loc4ext\t4 own and 4 external rollouts a round")
	require.Contains(t, offers(t, "sweep", "8loc0ext", ""), "4loc4ext\t4 own and 4 external rollouts a round")
	require.NotContains(t, strings.Join(offers(t, "sweep", "8loc0ext", ""), "\n"), "8loc0ext")
	require.Contains(t, strings.Join(offers(t, "sweep", "--study", ""), "\n"), "paper\tHow many of a round's eight rollouts")
	require.Contains(t, offers(t, "up", "--model", ""), "nano\t859 008 parameters")
	require.Equal(t, []string{"auto", "static", "lease", "mps"}, offers(t, "up", "--share", ""))
	require.Contains(t, offers(t, "task", "sample", ""), "bf")
	require.Contains(t, strings.Join(offers(t, "tune", "--workload", ""), "\n"), "naics-embedder\t")
}

func TestNodesAndRunsAreOffered(t *testing.T) {
	home := comparedHome(t, comparedRun{experiment: "4loc4ext", seed: 1, reward: 0.3})
	t.Setenv("SWARM_HOME", home)
	require.Contains(t, strings.Join(offers(t, "resume", ""), "\n"), "4loc4ext-0\trun, done")
	require.Contains(t, strings.Join(offers(t, "logs", "4loc4ext-0", ""), "\n"), "node_0\tnode, queued")
	require.Contains(t, strings.Join(offers(t, "model", "save", "4loc4ext", ""), "\n"), "node_0\t")
	require.Contains(t, strings.Join(offers(t, "model", "save", "4loc4ext", "./trained", "--best", "--node", ""), "\n"), "node_0\t")
	require.Contains(t, strings.Join(offers(t, "eval", "4loc4ext", "--node", ""), "\n"), "node_0\t")
	require.Contains(t, strings.Join(offers(t, "compare", "--baseline", ""), "\n"), "4loc4ext\texperiment")
}

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	helpOf(t, "man", "--out", dir)
	page, err := os.ReadFile(filepath.Join(dir, "swarm-up.1"))
	require.NoError(t, err)
	for _, text := range []string{"swarm-up - Train a swarm on this host", "adam-beta1", "EXAMPLE", "Exit codes"} {
		require.Contains(t, strings.ReplaceAll(string(page), "\\-", "-"), text)
	}
	for _, c := range newRootCommand(&globals{}).Commands() {
		if c.IsAvailableCommand() {
			require.FileExists(t, filepath.Join(dir, "swarm-"+c.Name()+".1"))
		}
	}
	require.Equal(t, 2, run([]string{"man"}, strings.NewReader(""), &strings.Builder{}, &strings.Builder{}))
}
