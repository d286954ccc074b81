package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// neutralized is the SQL of columns whose values tell of the machine that a run was made on, or of its owner, as Extract takes them.
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

// privacy are the SQL functions of neutralized: of a path only its last part stays, of a GPU's UUID which GPU of the extract it is, of a host's
// name in a message that it was a host.
type privacy struct {
	gpus  map[string]string
	uuids *strings.Replacer
	hosts map[string]bool
}

// install makes the functions known to the connection of db, which has one.
func (p *privacy) install(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error {
		c := driver.(*sqlite3.SQLiteConn)
		return errors.Join(c.RegisterFunc("neutral_name", WithoutFolders, true), c.RegisterFunc("neutral_text", p.text, true),
			c.RegisterFunc("neutral_gpu", p.gpu, true), c.RegisterFunc("neutral_document", p.document, true))
	})
}

// labels say what GPUs and hosts are called in an extract, as text that is the same for the same names.
type labels struct {
	all   string
	alone map[string]string // of each run, by its key, in an extract of it alone
}

// choose makes runs the chosen ones, learns their labels and returns these.
func (p *privacy) choose(ctx context.Context, tx *sql.Tx, runs ...string) (label string, err error) {
	if _, err := tx.ExecContext(ctx, "DELETE FROM chosen"); err != nil {
		return "", err
	}
	for _, run := range runs {
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO chosen VALUES (?)", run); err != nil {
			return "", err
		}
	}
	err = p.learn(ctx, tx)
	return fmt.Sprintf("%q %v", p.gpus, p.hosts), err // maps are printed in the order of their keys
}

// learn finds the GPUs and the hosts of the chosen runs, in an order that is the same for equal runs.
func (p *privacy) learn(ctx context.Context, tx *sql.Tx) error {
	p.gpus, p.hosts = map[string]string{}, map[string]bool{}
	var uuids []string
	add := func(uuid string) {
		if _, known := p.gpus[uuid]; !known && uuid != "" {
			p.gpus[uuid] = fmt.Sprintf("gpu-%d", len(p.gpus)+1)
			uuids = append(uuids, uuid)
		}
	}
	for _, x := range []struct {
		table, values string
		take          func(string)
	}{
		{"runs", `SELECT coalesce(value ->> 'uuid', '') FROM source.runs, json_each(plan, '$.gpus') WHERE run IN (SELECT run FROM chosen)
ORDER BY run, key`, add},
		{"devices", `SELECT uuid FROM source.devices WHERE run IN (SELECT run FROM chosen) GROUP BY run, gpu, uuid ORDER BY run, gpu, uuid`, add},
		{"runs", "SELECT DISTINCT host FROM source.runs WHERE run IN (SELECT run FROM chosen)", p.addHost},
		{"attempts", "SELECT DISTINCT host FROM source.attempts WHERE run IN (SELECT run FROM chosen)", p.addHost},
		{"workers", "SELECT DISTINCT host FROM source.workers WHERE run IN (SELECT run FROM chosen)", p.addHost},
	} {
		var there bool
		if err := tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM pragma_table_info(?)", x.table).Scan(&there); err != nil {
			return err
		}
		if !there {
			continue
		}
		err := query(ctx, tx, func(rows *sql.Rows) error {
			var value string
			err := rows.Scan(&value)
			x.take(value)
			return err
		}, x.values)
		if err != nil {
			return fmt.Errorf("%s: %w", x.table, err)
		}
	}
	slices.SortStableFunc(uuids, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may begin with another
	var pairs []string
	for _, uuid := range uuids {
		pairs = append(pairs, uuid, p.gpus[uuid])
	}
	p.uuids = strings.NewReplacer(pairs...)
	return nil
}

func (p *privacy) addHost(name string) {
	if name != "" {
		p.hosts[name] = true
	}
}

func (p *privacy) gpu(uuid string) string { return cmp.Or(p.gpus[uuid], uuid) }

// pathPart is what a folder's or a file's name is taken to consist of in a text.
const pathPart = `[^/\s"'` + "`" + `()\[\]{}<>,;:|]+`

var (
	homeFolder = regexp.MustCompile(`/(?:home|Users)/` + pathPart)
	folders    = regexp.MustCompile(`(^|[\s"'` + "`" + `(\[{<=,;:|])(?:file://)?(?:~/(?:` + pathPart + `/)*|/(?:` + pathPart + `/)+)`)
	word       = regexp.MustCompile(`[\pL\pN_.-]+`)
)

// WithoutFolders cuts absolute paths, of which there may be several beside other words, to their last part: as Extract has them.
func WithoutFolders(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	return folders.ReplaceAllString(homeFolder.ReplaceAllString(text, "~"), "$1")
}

// text is what a person reads.
func (p *privacy) text(text string) string {
	text = WithoutFolders(p.uuids.Replace(text))
	if len(p.hosts) == 0 {
		return text
	}
	return word.ReplaceAllStringFunc(text, func(s string) string {
		label, _, _ := strings.Cut(s, ".")
		if p.hosts[label] || p.hosts[strings.TrimRight(s, ".")] {
			return "host"
		}
		return s
	})
}

// DocumentWithoutFolders is a JSON document with WithoutFolders done to each text in it, as Extract has it. What is none stays as it is.
func DocumentWithoutFolders(text []byte) []byte {
	p := privacy{uuids: strings.NewReplacer()}
	plain, err := p.document(string(text))
	if err != nil {
		return text
	}
	return []byte(plain)
}

// document is a JSON document; one in which there is nothing to take out stays as it is, byte by byte.
func (p *privacy) document(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return "", err
	}
	changed := false
	value = p.within(value, &changed)
	if !changed {
		return text, nil
	}
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	err := out.Encode(value)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func (p *privacy) within(value any, changed *bool) any {
	switch x := value.(type) {
	case string:
		plain := WithoutFolders(p.uuids.Replace(x))
		*changed = *changed || plain != x
		return plain
	case []any:
		for i := range x {
			x[i] = p.within(x[i], changed)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			value := p.within(x[key], changed)
			plain := WithoutFolders(key) // of a run's inputs: model /srv/models/mine
			if _, taken := x[plain]; plain != key && !taken {
				delete(x, key)
				key, *changed = plain, true
			}
			x[key] = value
		}
	}
	return value
}
