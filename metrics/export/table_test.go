package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func table(t *testing.T, reader *store.Reader, format, name string, runs []store.Run) (string, int) {
	t.Helper()
	var out bytes.Buffer
	rows, err := Table(t.Context(), reader, &out, format, name, runs)
	require.NoError(t, err)
	return out.String(), rows
}

func TestCSVHasEveryDigitAndNoFormula(t *testing.T) {
	reader, runs := database(t, 2, 2, 3)
	text, rows := table(t, reader, FormatCSV, "rounds", runs)
	require.Equal(t, 12, rows)
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"run", "round", "node", "time", "reward"}, records[0][:5])
	require.Equal(t, []string{"x-0", "0", "node_0", "1000.123456", "0.3333333333333333"}, records[1][:5])
	require.Equal(t, "", records[3][4], "what is no number is an empty cell")
	loss := -1
	for i, name := range records[0] {
		if name == "loss" {
			loss = i
		}
	}
	require.Equal(t, "-1e-09", records[1][loss], "a number may begin with a sign: only text is no formula")

	text, _ = table(t, reader, FormatCSV, "events", runs[:1])
	records, err = csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	found := false
	for _, r := range records {
		for _, c := range r {
			found = found || c == "'"+strings.ToValidUTF8(hostile, "\uFFFD")
		}
	}
	require.True(t, found, text)
}

func TestJSONLinesKeepTextAndDocuments(t *testing.T) {
	reader, runs := database(t, 1, 2, 3)
	text, rows := table(t, reader, FormatJSONL, "events", runs)
	require.Equal(t, rows, strings.Count(text, "\n"))
	var messages []string
	for line := range strings.Lines(text) {
		var e struct {
			Message string `json:"message"`
			Detail  any    `json:"detail"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.Nil(t, e.Detail)
		messages = append(messages, e.Message)
	}
	require.Contains(t, messages, strings.ToValidUTF8(hostile, "\uFFFD"))
	text, _ = table(t, reader, FormatJSONL, "runs", runs)
	require.Contains(t, text, `"config":{"a":[1,2]}`)
	text, _ = table(t, reader, FormatJSONL, "rounds", runs)
	require.Contains(t, text, `"round":1,"node":"node_0","time":1001.123456,"reward":null`)
}

func TestEveryTableCanBeWrittenInBothFormats(t *testing.T) {
	reader, runs := database(t, 1, 1, 2)
	for _, name := range store.Tables() {
		text, rows := table(t, reader, FormatCSV, name, runs)
		records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		require.Len(t, records, rows+1, name)
		_, again := table(t, reader, FormatJSONL, name, runs)
		require.Equal(t, rows, again)
	}
	_, err := Table(t.Context(), reader, &bytes.Buffer{}, FormatCSV, "footprints", runs)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestNumbersAndTextComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			got, err := strconv.ParseFloat(decimal(v), 64)
			require.NoError(t, err)
			require.Equal(t, math.Float64bits(v), math.Float64bits(got))
		}
		text := rapid.String().Draw(t, "text")
		c := cell(text)
		require.False(t, c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])), "a spreadsheet would run %q", c)
		require.Equal(t, text, strings.TrimPrefix(c, "'"))
	})
}

type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

func TestAFullDiskIsAnError(t *testing.T) {
	reader, runs := database(t, 1, 2, 60)
	for _, format := range []string{FormatCSV, FormatJSONL} {
		_, err := Table(t.Context(), reader, &full{1000}, format, "rounds", runs)
		require.ErrorContains(t, err, "no room")
	}
}

// Pandas, an independent reader, finds the numbers of the database.
func TestPandasReadsTheTables(t *testing.T) {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import pandas").Run() != nil {
		t.Skip("no pandas for " + python)
	}
	reader, runs := database(t, 1, 2, 30)
	dir := t.TempDir()
	_, err := Folder(t.Context(), reader, dir, Options{Format: FormatCSV, Runs: runs, Tables: []string{"rounds"}})
	require.NoError(t, err)
	_, err = Folder(t.Context(), reader, dir+"/j", Options{Format: FormatJSONL, Runs: runs, Tables: []string{"rounds"}})
	require.NoError(t, err)
	out, err := exec.Command(python, "-c", `
import sys, pandas
for t in (pandas.read_csv(sys.argv[1] + "/rounds.csv", float_precision="round_trip"),
          pandas.read_json(sys.argv[1] + "/j/rounds.jsonl", lines=True, precise_float=True)):
    assert t.reward.isna().sum() == 1 and t["round"].max() == 29 and len(t) == 60
    assert t.reward[0] == 1 / 3 and (t.loss == -1e-9).all() and t.late.sum() == 30
print("read")`, dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "read\n", string(out))
}
