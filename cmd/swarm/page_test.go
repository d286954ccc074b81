package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/table"
)

func TestAPipeHasNoWidthUnlessCOLUMNSSaysSo(t *testing.T) {
	var pipe bytes.Buffer
	for _, c := range []struct {
		environ []string
		want    table.Screen
	}{
		{nil, table.Screen{}},
		{[]string{"COLUMNS=72"}, table.Screen{Width: 72}},
		{[]string{"COLUMNS=0"}, table.Screen{}},
		{[]string{"COLUMNS=wide"}, table.Screen{}},
		{[]string{"LC_ALL=C"}, table.Screen{ASCII: true}},
	} {
		require.Equal(t, c.want, screenOf(&pipe, c.environ), "%q", c.environ)
	}
}

// TestTablesArePrintedOneWay: what a command prints in columns comes from internal/table, which fits it to the terminal.
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
