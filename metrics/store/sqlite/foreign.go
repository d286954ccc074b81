package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Names of SQLite drivers. Connections of both drivers distrust the schema and limit the size of values.
const (
	OwnDriver     = "swarm"
	ForeignDriver = "swarm-foreign" // for files of unknown origin
)

// Limits of the memory that a file can make this process use. A configuration is at most 1 MiB of YAML.
const (
	mostOwnValue     = 64 << 20  // bytes per value or row, in a database of this home
	MostForeignValue = 4 << 20   // the same, in a file of unknown origin
	MostHeld         = 128 << 20 // bytes of a file of unknown origin that an import holds at once
)

func init() {
	for name, most := range map[string]int{OwnDriver: mostOwnValue, ForeignDriver: MostForeignValue} {
		sql.Register(name, &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
			c.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
			_, err := c.Exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON", nil)
			return err
		}})
	}
}

// CheckForeign rejects a database of unknown origin if the text of its schema differs from this program's, or if an
// import would exceed the memory limits. It compares the schema first: with our text, the file can execute only our own
// checks. schema is the name of the database in q.
func CheckForeign(ctx context.Context, q schemaQuerier, path, schema string) error {
	var version int
	if err := q.QueryRowContext(ctx, "PRAGMA "+schema+".user_version").Scan(&version); err != nil {
		return err
	}
	want, err := schemaText(ctx, version)
	if err != nil {
		return err
	}
	got, err := readSchema(ctx, q, schema)
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return &Error{Path: path, Reason: "not a swarm database: " + difference(got, want)}
	}
	var held int64
	for _, x := range []struct{ table, values string }{
		{"runs", "run, experiment, state, message, preset, model, device, config, plan, versions, host, boot_id"},
		{"attempts", "host"}, {"workers", "host"}, {"devices", "uuid"},
	} {
		if _, there := want["table "+x.table]; !there {
			continue
		}
		var bytes sql.NullInt64
		sum := "sum(octet_length(" + strings.ReplaceAll(x.values, ", ", ") + octet_length(") + ") + 100)"
		if err := q.QueryRowContext(ctx, "SELECT "+sum+" FROM "+schema+"."+x.table).Scan(&bytes); err != nil {
			return err
		}
		held += bytes.Int64
	}
	if held > MostHeld {
		return &Error{Path: path, Reason: fmt.Sprintf("its runs' descriptions are larger than %d MiB", MostHeld>>20)}
	}
	return nil
}

type schemaQuerier interface {
	querier
	Rows
}

// schemaText returns the result of readSchema for a database of this program with a schema version.
func schemaText(ctx context.Context, version int) (map[string]string, error) {
	steps, err := Migrations()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(OwnDriver, ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has its own in-memory database
	for _, step := range steps[:version] {
		if _, err := db.ExecContext(ctx, step); err != nil {
			return nil, err
		}
	}
	return readSchema(ctx, db, "main")
}

// readSchema returns the text of everything in a database's schema, by kind and name. It executes nothing of the
// database.
func readSchema(ctx context.Context, q Rows, schema string) (map[string]string, error) {
	all := map[string]string{}
	err := Query(ctx, q, func(rows *sql.Rows) error {
		var kind, name, table string
		var text sql.NullString
		var root int64
		if err := rows.Scan(&kind, &name, &table, &text, &root); err != nil {
			return err
		}
		if root == 0 {
			kind = "virtual " + kind
		}
		all[kind+" "+name] = table + "\x00" + text.String
		if len(all) > 1000 {
			return errors.New("its schema has more than 1000 parts")
		}
		return nil
	}, "SELECT type, name, tbl_name, sql, coalesce(rootpage, 0) FROM "+schema+".sqlite_schema")
	return all, err
}

// difference describes the first difference between two schemas.
func difference(got, want map[string]string) string {
	for key, text := range got {
		switch wanted, there := want[key]; {
		case !there:
			return fmt.Sprintf("its schema has a %.80q", key)
		case wanted != text:
			return fmt.Sprintf("its schema has another %s", key)
		}
	}
	for key := range want {
		if _, there := got[key]; !there {
			return "its schema has no " + key
		}
	}
	return ""
}
