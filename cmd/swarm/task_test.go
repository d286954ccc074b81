package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
)

// golden returns the lines of a compressed file of node/task's testdata.
func golden(t *testing.T, name string) [][]byte {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "node", "task", "testdata", name))
	require.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// runTask runs swarm task in this process. Its protocol uses only stdin and stdout.
func runTask(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"task"}, args...), strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func TestTaskList(t *testing.T) {
	o := runTask(t, "", "list", "-o", "json")
	require.Equal(t, 0, o.code)
	list := decode(t, o.stdout).([]any)
	require.Len(t, list, 9)
	for _, task := range list {
		fields(t, task, map[string]string{"name": "string", "weight": "number", "params": "object"})
	}
}

// Items equal the library's: answers and metadata byte for byte.
func TestTaskSampleGivesTheLibrarysItems(t *testing.T) {
	seeds := map[string]string{"basic_arithmetic": "1234", "base_conversion": "1239", "propositional_logic": "1238", "arc_1d": "42"}
	for name, seed := range seeds {
		o := runTask(t, "", "sample", name, "-n", "5", "--seed", seed, "-o", "json")
		require.Equal(t, 0, o.code, o.stderr)
		require.Len(t, lines(o.stdout), 5)
		for i, line := range lines(o.stdout) {
			var got, want struct {
				Question string
				Answer   *string
				Metadata json.RawMessage
			}
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			require.NoError(t, json.Unmarshal(golden(t, "examples/"+name+".jsonl.gz")[i], &want))
			require.NotEmpty(t, got.Question)
			require.Equal(t, want.Answer, got.Answer, "%s, item %d", name, i)
			require.JSONEq(t, string(want.Metadata), string(got.Metadata), "%s, item %d", name, i)
		}
	}
}

func TestTaskScoreGivesTheLibrarysScores(t *testing.T) {
	specs, err := configs.TaskSet("paper")
	require.NoError(t, err)
	for _, spec := range specs {
		items := golden(t, "examples/"+spec.Name+".jsonl.gz")
		var stdin strings.Builder
		var want []float64
		for _, line := range golden(t, "scores/"+spec.Name+".jsonl.gz")[:100] {
			var c struct {
				Index  int             `json:"entry_index"`
				Answer json.RawMessage `json:"answer"`
				Score  float64         `json:"score"`
			}
			require.NoError(t, json.Unmarshal(line, &c))
			stdin.WriteString(`{"entry":` + string(items[c.Index]) + `,"answer":` + string(c.Answer) + "}\n")
			want = append(want, c.Score)
		}
		o := runTask(t, stdin.String(), "score", spec.Name)
		require.Equal(t, 0, o.code, o.stderr)
		got := lines(o.stdout)
		require.Len(t, got, len(want))
		for i, line := range got {
			score := fields(t, decode(t, line), map[string]string{"score": "number"})["score"]
			require.InDelta(t, want[i], score, 1e-9, "%s, case %d", spec.Name, i)
		}
	}
}

func TestTaskExtract(t *testing.T) {
	cases := golden(t, "extract.jsonl.gz")
	var stdin strings.Builder
	for _, line := range cases {
		var c struct {
			Completion json.RawMessage `json:"completion"`
		}
		require.NoError(t, json.Unmarshal(line, &c))
		stdin.WriteString(`{"completion":` + string(c.Completion) + "}\n")
	}
	o := runTask(t, stdin.String(), "extract")
	require.Equal(t, 0, o.code, o.stderr)
	got := lines(o.stdout)
	require.Len(t, got, len(cases))
	for i, line := range cases {
		require.Equal(t, fields(t, decode(t, string(line)), map[string]string{"extracted": "string?"})["extracted"],
			fields(t, decode(t, got[i]), map[string]string{"answer": "string?"})["answer"], "%s", line)
	}
}

// An invalid line ends the command. The answers to the lines before it are on stdout.
func TestTaskBadLines(t *testing.T) {
	const good = `{"completion":"<answer>1</answer>"}` + "\n\n"
	for _, tt := range []struct{ stdin, err string }{
		{good + "{", "line 3 is not the expected JSON: unexpected end of JSON input"},
		{good + `{"completion":5}` + "\n" + good, "line 3 is not the expected JSON: json: cannot unmarshal number into Go struct field input.completion of type string"},
		{good + "{}\n", "line 3: it has no completion"},
		{good + strings.Repeat("x", task.MaxLine+1), "line 3: longer than 16777216 bytes"},
	} {
		o := runTask(t, tt.stdin, "extract")
		require.Equal(t, 2, o.code)
		require.Equal(t, `{"answer":"1"}`+"\n", o.stdout)
		require.Equal(t, "Error: "+tt.err+"\nTry: swarm task extract --help\n", o.stderr)
	}
	o := runTask(t, `{"answer":"1"}`, "score", "bf")
	require.Equal(t, outcome{2, "", "Error: line 1: it has no entry and no question\nTry: swarm task score --help\n"}, o)
}
