package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Invalid requests are rejected before the database is read.
func TestRequestsThatCannotBeWritten(t *testing.T) {
	for want, r := range map[string]Request{
		`bad format "xml"`:                                {Format: "xml", Out: "x"},
		"--table needs csv or jsonl: format sqlite":       {Format: FormatSQLite, Out: "x.db", Tables: []string{"rounds"}},
		"--table needs csv or jsonl: format tensor":       {Format: FormatTensorBoard, Out: "x", Tables: []string{"rounds"}},
		"name the place for the database":                 {Format: FormatSQLite},
		"name the place for the event files":              {Format: FormatTensorBoard},
		"name the place for the tables":                   {Format: FormatCSV},
		"--out - writes only one table, as csv or jsonl":  {Format: FormatCSV, Out: "-"},
		"--out rounds.json names a file, which holds one": {Format: FormatCSV, Out: "rounds.json", Tables: []string{"rounds"}},
		`bad table "rounds,nope"`:                         {Format: FormatCSV, Out: "x", Tables: []string{"rounds", "nope"}},
	} {
		require.ErrorContains(t, r.Check(), want)
	}
}

func TestOneTableMayBeAFile(t *testing.T) {
	dir := t.TempDir()
	for out, file := range map[string]bool{"-": true, "a.csv": true, "a.CSV": true, "a": false, "a.jsonl": false} {
		r := Request{Format: FormatCSV, Out: out, Tables: []string{"rounds"}}
		require.Equal(t, file, r.ToFile(), out)
		r.Tables = append(r.Tables, "evals")
		require.False(t, r.ToFile(), out)
	}
	folder := filepath.Join(dir, "runs.csv")
	require.NoError(t, os.Mkdir(folder, 0o755))
	r := Request{Format: FormatCSV, Out: folder}
	require.NoError(t, r.Check(), "it is a folder already")
	require.Greater(t, len(r.Tables), 5, "all of them")
	r = Request{Format: FormatJSONL, Out: folder, Tables: []string{"tasks"}}
	require.NoError(t, r.Check())
	require.Equal(t, "task_rewards", strings.Join(r.Tables, ","))
}
