package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/extract"
)

// digests are the checksums of runs. Each is computed on an extract of that run alone, so that labels of GPUs and hosts
// do not depend on the other runs in the file. They are computed in parallel with the import, on every core.
type digests struct {
	of   map[string]*digest // by the run's key in the file
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	opened []*Reader
}

// digest is one checksum. Its other fields are valid after done is closed.
type digest struct {
	done chan struct{}
	sum  string
	rows int
	err  error
}

// startDigests starts to compute the checksums of runs in the database from. all is an extract of all runs, and labels
// holds the names of GPUs and hosts in it. Further extracts are written to dir. The caller must call close.
func startDigests(ctx context.Context, from, all *Reader, labels extract.Labels, dir string, runs []Totals) *digests {
	ctx, stop := context.WithCancel(ctx)
	d := &digests{of: map[string]*digest{}, stop: stop}
	alike := map[string][]Totals{} // runs with the same labels share an extract
	for _, r := range runs {
		label := labels.Alone[r.Run.Run]
		alike[label] = append(alike[label], r)
	}
	cores := make(chan struct{}, runtime.GOMAXPROCS(0))
	for label, same := range alike {
		open := func() (*Reader, error) { return all, nil }
		if label != labels.All {
			path := filepath.Join(dir, fmt.Sprintf("alike-%d.db", len(d.of)))
			open = sync.OnceValues(func() (*Reader, error) { return d.extract(ctx, from, path, same) })
		}
		for _, r := range same {
			x := &digest{done: make(chan struct{})}
			d.of[r.Run.Run] = x
			d.work.Go(func() {
				defer close(x.done)
				cores <- struct{}{}
				defer func() { <-cores }()
				alone, err := open()
				if err == nil {
					x.sum, x.rows, err = digestRun(ctx, alone, r.Run.Run)
				}
				x.err = named(err, from.Name())
			})
		}
	}
	return d
}

func (d *digests) extract(ctx context.Context, from *Reader, path string, runs []Totals) (*Reader, error) {
	made, _, err := extractTo(ctx, from, path, runs)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = append(d.opened, made)
	return made, nil
}

// wait returns a run's checksum and its number of rows. Both are zero for a run without a checksum, which had not
// ended.
func (d *digests) wait(run string) (sum string, rows int, err error) {
	x := d.of[run]
	if x == nil {
		return "", 0, nil
	}
	<-x.done
	return x.sum, x.rows, x.err
}

// close stops the computation.
func (d *digests) close() error {
	d.stop()
	d.work.Wait()
	var err error
	for _, r := range d.opened {
		err = errors.Join(err, r.Close())
	}
	return err
}

// digestRun returns a checksum of an extract's data of a run, independent of the run's key, and its number of rows. It
// rejects invalid names.
func digestRun(ctx context.Context, from *Reader, run string) (digest string, rows int, err error) {
	sum := sha256.New()
	for _, table := range extract.Tables() {
		if table == "imports" {
			continue
		}
		n, err := digestTable(ctx, from, table, run, sum)
		if err != nil {
			return "", 0, err
		}
		rows += n
	}
	return hex.EncodeToString(sum.Sum(nil)), rows, nil
}

// firstLateMetric is the schema from which on checksums omit metric columns that are NULL, so that imports of older
// programs keep their checksums.
const firstLateMetric = 9

func digestTable(ctx context.Context, from *Reader, table, run string, sum hash.Hash) (rows int, err error) {
	columns, err := from.Columns(ctx, table)
	if err != nil {
		return 0, err
	}
	var treated []digested
	for _, c := range columns {
		metric, _ := event.MetricNamed(c.Name)
		treated = append(treated, digested{
			skip:    c.Name == "run" || c.Name == "id",
			late:    table == "rounds" && metric.Since >= firstLateMetric || table == "nodes" && strings.HasSuffix(c.Name, "pss_bytes"),
			version: table == "runs" && c.Name == "versions",
			name:    !c.JSON && !freeText[table+"."+c.Name],
		})
	}
	fmt.Fprintf(sum, "%s\n", table)
	var text []byte
	checked := map[string]bool{} // names repeat
	err = from.Dump(ctx, table, run, "", func(row []any) error {
		rows++
		text = text[:0]
		for i, c := range treated {
			value := row[i]
			name, isText := value.(string)
			switch {
			case c.skip, c.late && value == nil:
				continue
			case c.version:
				value = withoutMark(name)
			case isText && c.name && !checked[name]:
				if err := CheckName(name); err != nil {
					return &Error{Path: from.path, Reason: "damaged", Err: fmt.Errorf("%s.%s: %w", table, columns[i].Name, err)}
				}
				if len(checked) < 1000 {
					checked[name] = true
				}
			}
			text = appendValue(text, value)
		}
		sum.Write(text) // never fails
		return nil
	})
	return rows, err
}

// digested describes how a checksum treats a column.
type digested struct {
	skip    bool // differs between databases
	late    bool // NULL is omitted, so that imports from before the column keep their checksum
	version bool
	name    bool // its texts are names
}

// appendValue appends a value of Dump in the form used by checksums: its type and its quoted text.
func appendValue(to []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(to, "<nil> \"<nil>\"\n"...)
	case int64:
		to = append(to, `int64 "`...)
		return append(strconv.AppendInt(to, v, 10), "\"\n"...)
	case float64:
		to = append(to, `float64 "`...)
		return append(strconv.AppendFloat(to, v, 'g', -1, 64), "\"\n"...)
	case string:
		to = append(to, "string "...)
		return append(strconv.AppendQuote(to, v), '\n')
	}
	return fmt.Appendf(to, "%T %q\n", value, fmt.Sprint(value))
}

// freeText lists the columns with text for display. Such text may have any length.
var freeText = map[string]bool{
	"runs.message": true, "attempts.message": true, "nodes.message": true, "events.message": true, "workers.reason": true, "rounds.non_finite": true,
	"evals.non_finite": true, "runs.model": true,
}

// withoutMark returns a versions document without the mark of an import.
func withoutMark(text string) string {
	var versions map[string]any
	if json.Unmarshal([]byte(text), &versions) != nil {
		return text
	}
	delete(versions, importedKey)
	data, err := json.Marshal(versions) // sorted by key
	if err != nil {
		return text
	}
	return string(data)
}
