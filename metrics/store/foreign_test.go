package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// givenDatabase creates a database of one of this program's schemas with one finished run. edit changes the schema's
// text before it is executed.
func givenDatabase(t *testing.T, version int, edit func(string) string) string {
	t.Helper()
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "given.db")
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	for i, step := range steps[:version] {
		_, err := db.Exec(edit(step) + fmt.Sprintf("\nPRAGMA application_id = %d; PRAGMA user_version = %d;", sqlite.ApplicationID, i+1))
		require.NoError(t, err)
	}
	_, err = db.Exec(`INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations,
  config, plan, versions, started, resumed, ended) VALUES ('a-1', 'a', 'done', 1, 1, 1, 1, 1, 2, '{}', '{}', '{}', 10, 10, 20)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return path
}

func unchanged(text string) string { return text }

// A file may have any readable schema of this program. The studies in the documentation are such files;
// metrics/stats/alarm opens all.
func TestOurOwnSchemasAreImported(t *testing.T) {
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	var given []string
	for version := oldestReadable; version <= len(steps); version++ {
		given = append(given, givenDatabase(t, version, unchanged))
	}
	for _, path := range append(given, "../../docs/study/corrected.db.gz") {
		from, err := OpenFile(t.Context(), path)
		require.NoError(t, err, path)
		s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
		runs, err := s.ImportRuns(t.Context(), from, false)
		require.NoError(t, err, path)
		require.NotEmpty(t, runs)
		require.Equal(t, ImportNew, runs[0].Outcome)
		require.NoError(t, from.Close())
	}
}

// A file with any other schema is rejected before any of its values is read: computed columns, indexes on expressions,
// other checks.
func TestOnlyOurSchemaIsOpened(t *testing.T) {
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	newest := len(steps)
	for name, path := range map[string]string{
		"a generated column": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "message              TEXT    NOT NULL DEFAULT ''", "message TEXT AS (hex(zeroblob(10))) VIRTUAL", 1)
		}),
		"a stored one": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "message              TEXT    NOT NULL DEFAULT ''", "message TEXT AS (hex(zeroblob(10))) STORED", 1)
		}),
		"another column": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "model                TEXT", "extra TEXT, model TEXT", 1)
		}),
		"another check": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "CHECK (json_valid(config))", "CHECK (length(hex(zeroblob(10))) > 0)", 1)
		}),
		"an index on an expression": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "ON runs (experiment, resumed)", "ON runs (experiment, length(hex(zeroblob(10))))", 1)
		}),
		"another table": givenDatabase(t, newest, func(text string) string {
			return strings.Replace(text, "CREATE TABLE runs", "CREATE TABLE other (a); CREATE TABLE runs", 1)
		}),
		"an older schema's text": func() string {
			path := givenDatabase(t, newest-1, unchanged)
			db, err := sql.Open("sqlite3", path)
			require.NoError(t, err)
			_, err = db.Exec(fmt.Sprintf("PRAGMA user_version = %d", newest))
			require.NoError(t, err)
			require.NoError(t, db.Close())
			return path
		}(),
	} {
		opened, err := OpenFile(t.Context(), path)
		var refused *Error
		require.ErrorAs(t, err, &refused, name)
		require.ErrorContains(t, err, "schema", name)
		require.Nil(t, opened)
	}
}

// The memory for reading a file is bounded, whatever the file's size.
func TestAFileWithHugeValuesIsRefused(t *testing.T) {
	fill := func(config, runs int) string {
		return fmt.Sprintf(`WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d)
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations,
  config, plan, versions, started, resumed, ended)
SELECT 'b-' || n, 'b', 'done', 1, 1, 1, 1, 1, 2, '"' || hex(zeroblob(%d)) || '"', '{}', '{}', 10, 10, 20 FROM s`, runs, config/2)
	}
	for name, statement := range map[string]string{
		"one value":  fill(sqlite.MostForeignValue+2, 1),
		"all values": fill(2<<20, sqlite.MostHeld/(2<<20)+1),
	} {
		path := givenDatabase(t, oldestReadable, unchanged)
		db, err := sql.Open("sqlite3", path)
		require.NoError(t, err)
		_, err = db.Exec(statement)
		require.NoError(t, err, name)
		require.NoError(t, db.Close())
		from, err := OpenFile(t.Context(), path)
		if err == nil {
			s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
			_, err = s.ImportRuns(t.Context(), from, false)
			require.NoError(t, from.Close())
		}
		var refused *Error
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, path, refused.Path)
		require.ErrorContains(t, err, "larger than", name)
	}
}

// endless is the beginning of a database that never ends.
type endless struct{ header []byte }

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.header)
	e.header = e.header[n:]
	clear(p[n:])
	return len(p), nil
}

// Unpacking and checking stop when their context ends, for example by a signal.
func TestOpeningAFileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	began := time.Now()
	err := unpack(ctx, io.Reader(&endless{}), filepath.Join(t.TempDir(), "x.db"), 1<<62)
	require.ErrorIs(t, err, why)
	require.Less(t, time.Since(began), time.Minute)

	path := givenDatabase(t, oldestReadable, unchanged)
	_, err = OpenFile(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(path)
	require.NoError(t, err)
}
