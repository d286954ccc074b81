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
		`bad format "xml"`:                                     {Format: "xml", Out: "x"},
		"--table is for csv and jsonl: a database":             {Format: FormatSQLite, Out: "x.db", Tables: []string{"rounds"}},
		"--table is for csv and jsonl: event files":            {Format: FormatTensorBoard, Out: "x", Tables: []string{"rounds"}},
		"it says where to write the database":                  {Format: FormatSQLite},
		"it says where to write the event files":               {Format: FormatTensorBoard},
		"it says where to write the tables":                    {Format: FormatCSV},
		"--out - writes one table, as csv or jsonl":            {Format: FormatCSV, Out: "-"},
		"--out rounds.json is a file's name: a file holds one": {Format: FormatCSV, Out: "rounds.json", Tables: []string{"rounds"}},
		`bad table "rounds,nope"`:                              {Format: FormatCSV, Out: "x", Tables: []string{"rounds", "nope"}},
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
