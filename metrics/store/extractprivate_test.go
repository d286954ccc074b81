package store

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Words that occur wherever a run records its machine, and that must not occur in any byte of an extract.
var secrets = []string{"secrethost", "secretfolder", "GPU-5ec7e7", "GPU-0ther", "secretboot", "secretpython", "alice"}

func TestAnExtractTellsNothingOfItsMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s := openStore(t, path, Options{})
	run := aRun()
	run.Host, run.BootID, run.PID, run.StartTicks = "secrethost", "secretboot", 31337, 31337
	run.Model = "/home/alice/secretfolder/tuned"
	run.Config = json.RawMessage(`{"seed":7,"learning_rate":1e-05,"model":"/home/alice/secretfolder/tuned",
"tasks":{"words":"/secretfolder/w.txt","operators":["/","<"]}}`)
	run.Plan = json.RawMessage(`{"gpus":[{"index":0,"uuid":"GPU-5ec7e7"},{"index":1,"uuid":"GPU-5ec7e7-2"}],
"why":"/secretfolder/tuned fits on GPU-5ec7e7-2"}`)
	run.Versions = json.RawMessage(`{"python":"/opt/secretpython/bin/python3","torch":"2.4","inputs":{"model":"abc"}}`)
	require.NoError(t, s.StartRun(t.Context(), run))
	record(t, s,
		event.Event{Type: event.TypeSpawn, Run: testRun, Node: "node_0", Time: 101, PID: 31337},
		event.Event{Type: event.TypeLoaded, Run: testRun, Node: "node_0", Time: 102, PID: 31337, Loaded: &event.Loaded{Model: "/secretfolder/tuned"}},
		event.Event{Type: event.TypeSpawn, Run: testRun, Node: "node_1", Time: 103, PID: 31337},
		aRound("node_0", 0, 104, 0.25),
		event.Event{Type: event.TypeWarning, Run: testRun, Node: "node_0", Time: 105,
			Message: `open "/secretfolder/a b": secrethost: no space on file:///secretfolder/x, 4/4 at 1.29/h`},
		event.Event{Type: event.TypeWarning, Run: testRun, Node: "node_0", Time: 106, Message: "can't write /secretfolder/one/log"},
		event.Event{Type: event.TypeWarning, Run: testRun, Node: "node_0", Time: 106, Message: "can't write /secretfolder/two/log"},
		event.Event{Type: event.TypeExit, Run: testRun, Node: "node_0", Time: 108, Cause: event.CauseOutOfMemory,
			Message: "GPU-0ther of secrethost.example.org ran out, log=/home/alice (/secretfolder/log)"},
	)
	for _, statement := range []string{
		`INSERT INTO workers (run, worker, host, reason) VALUES (?, 'w', 'secrethost', 'left /secretfolder/outbox')`,
		`INSERT INTO imports (run, format, source, digest, imported, notes)
VALUES (?, 'f', '/secretfolder', 'd', 1, '["found /secretfolder/config.yaml"]')`,
		`INSERT INTO devices (run, uuid, time, gpu, name, memory_total_bytes, memory_used_bytes, unattributed_bytes)
SELECT ?, column2, 10, column1, 'A100', 8, 4, 0 FROM (VALUES (1, 'GPU-5ec7e7-2'), (2, 'GPU-0ther'))`,
	} {
		_, err := s.db.Exec(statement, testRun)
		require.NoError(t, err)
	}
	reader, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()

	small := filepath.Join(t.TempDir(), "small.db")
	_, err = reader.Extract(t.Context(), small, []string{testRun})
	require.NoError(t, err)
	data, err := os.ReadFile(small)
	require.NoError(t, err)
	for _, secret := range secrets {
		require.False(t, bytes.Contains(data, []byte(secret)), secret)
	}
	opened, err := OpenFile(t.Context(), small)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	got, err := opened.Snapshot(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []any{"", 0, int64(0), "", "tuned", "tuned", 0},
		[]any{got.Run.Host, got.Run.PID, got.Run.StartTicks, got.Run.BootID, got.Run.Model, got.Nodes[0].Model, got.Nodes[1].PID})
	require.JSONEq(t, `{"seed":7,"learning_rate":1e-05,"model":"tuned","tasks":{"words":"w.txt","operators":["/","<"]}}`, string(got.Run.Config))
	require.Contains(t, string(got.Run.Config), "1e-05", "numbers keep their digits")
	require.JSONEq(t, `{"gpus":[{"index":0,"uuid":"gpu-1"},{"index":1,"uuid":"gpu-2"}],"why":"tuned fits on gpu-2"}`, string(got.Run.Plan))
	require.JSONEq(t, `{"torch":"2.4","inputs":{"model":"abc"}}`, string(got.Run.Versions))
	var uuids []any
	for _, row := range rowsOf(t, opened, "devices") {
		uuids = append(uuids, row[1])
	}
	require.Equal(t, []any{"gpu-2", "gpu-3"}, uuids)
	entries, err := opened.Timeline(t.Context(), testRun, 0, 100)
	require.NoError(t, err)
	var messages []string
	for _, e := range entries {
		messages = append(messages, e.Event.Message)
	}
	require.Equal(t, []string{`open "a b": host: no space on x, 4/4 at 1.29/h`, "can't write log", "gpu-3 of host ran out, log=~ (log)"}, messages)
}
