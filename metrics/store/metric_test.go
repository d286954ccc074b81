package store

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// columnTypes returns the columns of rounds in a database, with their types.
func columnTypes(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite3", sqlite.DSN(path, nil))
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT name, type FROM pragma_table_info('rounds')`)
	require.NoError(t, err)
	defer rows.Close()
	types := map[string]string{}
	for rows.Next() {
		var name, kind string
		require.NoError(t, rows.Scan(&name, &kind))
		types[name] = kind
	}
	require.NoError(t, rows.Err())
	return types
}

// The migrations create one column per metric, with its type, in the schema version that the metric declares.
func TestMigrationsGiveEveryMetricItsColumn(t *testing.T) {
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	for schema := oldestReadable; schema <= len(steps); schema++ {
		want := map[string]string{"run": "TEXT", "round": "INTEGER", "node": "TEXT", "time": "REAL", "non_finite": "TEXT"}
		for _, m := range event.Metrics() {
			switch {
			case m.Since > schema:
			case m.Real():
				want[m.Name] = "REAL"
			default:
				want[m.Name] = "INTEGER"
			}
		}
		require.Equal(t, want, columnTypes(t, olderDatabase(t, schema, "")), "schema %d", schema)
	}
}

// docs/METRICS.md states the current schema version.
func TestTheMetricsPageNamesTheSchema(t *testing.T) {
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/METRICS.md")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(page)), " "), fmt.Sprintf("`PRAGMA user_version` is the schema's version, now %d. This program also reads schemas %d to %d.",
		len(steps), oldestReadable, len(steps)-1))
}
