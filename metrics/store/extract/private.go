package extract

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"github.com/sapo-swarm/swarm/metrics/store/neutral"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// neutralized maps columns whose values identify the machine or its owner to the SQL expressions that replace them in
// an extract.
var neutralized = map[string]string{
	"runs.host": "''", "runs.boot_id": "''", "runs.pid": "0", "runs.start_ticks": "0",
	"attempts.host": "''", "attempts.pid": "0", "nodes.pid": "0", "nodes.engine_pid": "0", "workers.host": "''", "imports.source": "''",
	"runs.versions": "neutral_document(json_remove(versions, '$.python'))",
	"runs.config":   "neutral_document(config)", "runs.plan": "neutral_document(plan)",
	"events.detail": "neutral_document(detail)", "imports.notes": "neutral_document(notes)",
	"devices.uuid": "neutral_gpu(uuid)", "runs.model": "neutral_name(model)", "nodes.model": "neutral_name(model)",
	"runs.message": "neutral_text(message)", "attempts.message": "neutral_text(message)", "nodes.message": "neutral_text(message)",
	"events.message": "neutral_text(message)", "workers.reason": "neutral_text(reason)",
}

// privacy implements the SQL functions of neutralized. They reduce a path to its last part, a GPU's UUID to a number
// within the extract, and a host name in a message to "host".
type privacy struct{ names *neutral.Names }

// install registers the functions on the single connection of db.
func (p *privacy) install(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error {
		c := driver.(*sqlite3.SQLiteConn)
		return errors.Join(c.RegisterFunc("neutral_name", neutral.WithoutFolders, true),
			c.RegisterFunc("neutral_text", func(text string) string { return p.names.Text(text) }, true),
			c.RegisterFunc("neutral_gpu", func(uuid string) string { return p.names.GPU(uuid) }, true),
			c.RegisterFunc("neutral_document", func(text string) (string, error) { return p.names.Document(text) }, true))
	})
}

// Labels are texts that identify the replacement names of GPUs and hosts in an extract. Equal names produce equal
// labels.
type Labels struct {
	All   string
	Alone map[string]string // by run key, for an extract of that run alone
}

// choose selects runs, reads their names of GPUs and hosts, and returns the label of these names.
func (p *privacy) choose(ctx context.Context, tx *sql.Tx, runs ...string) (label string, err error) {
	if _, err := tx.ExecContext(ctx, "DELETE FROM chosen"); err != nil {
		return "", err
	}
	for _, run := range runs {
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO chosen VALUES (?)", run); err != nil {
			return "", err
		}
	}
	if err := p.learn(ctx, tx); err != nil {
		return "", err
	}
	return p.names.Label(), nil
}

// learn finds the GPUs and hosts of the chosen runs, in the same order for equal runs.
func (p *privacy) learn(ctx context.Context, tx *sql.Tx) error {
	var uuids, hosts []string
	for _, x := range []struct {
		table, values string
		list          *[]string
	}{
		{"runs", `SELECT coalesce(value ->> 'uuid', '') FROM source.runs, json_each(plan, '$.gpus') WHERE run IN (SELECT run FROM chosen)
ORDER BY run, key`, &uuids},
		{"devices", `SELECT uuid FROM source.devices WHERE run IN (SELECT run FROM chosen) GROUP BY run, gpu, uuid ORDER BY run, gpu, uuid`, &uuids},
		{"runs", "SELECT DISTINCT host FROM source.runs WHERE run IN (SELECT run FROM chosen)", &hosts},
		{"attempts", "SELECT DISTINCT host FROM source.attempts WHERE run IN (SELECT run FROM chosen)", &hosts},
		{"workers", "SELECT DISTINCT host FROM source.workers WHERE run IN (SELECT run FROM chosen)", &hosts},
	} {
		var there bool
		if err := tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM pragma_table_info(?)", x.table).Scan(&there); err != nil {
			return err
		}
		if !there {
			continue
		}
		err := sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
			var value string
			err := rows.Scan(&value)
			*x.list = append(*x.list, value)
			return err
		}, x.values)
		if err != nil {
			return fmt.Errorf("%s: %w", x.table, err)
		}
	}
	p.names = neutral.NewNames(uuids, hosts)
	return nil
}
