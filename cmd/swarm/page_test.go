package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTablesArePrintedOneWay: commands print columns with internal/table, which fits them to the terminal.
func TestTablesArePrintedOneWay(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") {
			require.NotContains(t, string(text), "text/tabwriter", file)
		}
	}
}
