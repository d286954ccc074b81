package main

import (
	"compress/gzip"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// addressSpace is the program's limit in the test, in KiB. An import of the largest study in docs/study needs less.
const addressSpace = 2_500_000

// raced tells whether the race detector is on. It reserves terabytes of addresses.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// bomb is a small file: a valid export, except for one column that computes values of a gigabyte for each run.
func bomb(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bomb.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	rewrite := func(from, to string) {
		_, err := db.Exec(`PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'runs'; PRAGMA writable_schema = RESET`, from, to)
		require.NoError(t, err)
	}
	_, err = db.Exec("PRAGMA journal_mode = DELETE")
	require.NoError(t, err)
	rewrite("message              TEXT    NOT NULL DEFAULT ''", "message TEXT AS (hex(zeroblob(1))) VIRTUAL")
	for i := range 8 {
		_, err = db.Exec(`INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations,
  config, plan, versions, started, resumed, ended) VALUES (?, 'a', 'done', ?, 1, 1, 1, 1, 2, '{}', '{}', '{}', 10, 10, 20)`, fmt.Sprint("a-", i+1), i)
		require.NoError(t, err)
	}
	rewrite("zeroblob(1)", "zeroblob(499999999)")
	require.NoError(t, db.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := os.Create(path + ".gz")
	require.NoError(t, err)
	packing := gzip.NewWriter(file)
	_, err = packing.Write(data)
	require.NoError(t, err)
	require.NoError(t, packing.Close())
	require.NoError(t, file.Close())
	info, err := os.Stat(path + ".gz")
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(20_000), "it is small")
	return path + ".gz"
}

// Every command refuses a file of some kilobytes that computes gigabytes, at once and in little memory.
func TestAnImportBombIsRefusedInLittleMemory(t *testing.T) {
	t.Parallel()
	path := bomb(t)
	for _, args := range [][]string{{"import", path, "--dry-run"}, {"import", path}, {"compare", "--database", path}} {
		cmd := swarmCommand(t, t.TempDir(), args...)
		if !raced() {
			shell, err := exec.LookPath("sh")
			require.NoError(t, err)
			cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, addressSpace), cmd.Path}, cmd.Args[1:]...)
			cmd.Path = shell
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		code := waitFor(t, cmd)
		require.Equal(t, 2, code, stderr.String())
		require.Contains(t, stderr.String(), "its schema has another table runs")
	}
}
