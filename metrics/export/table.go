package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// rowWriter writes rows of a table.
type rowWriter interface {
	row(values []any) error
	flush() error
}

// Table streams a table of runs, or of jobs by their keys, to w, and returns its number of rows. docs/METRICS.md
// defines the names and units of columns.
func Table(ctx context.Context, reader *store.Reader, w io.Writer, format, table string, runs []store.Run, jobs ...string) (rows int, err error) {
	columns, err := reader.Columns(ctx, table)
	if err != nil {
		return 0, err
	}
	var out rowWriter
	switch format {
	case FormatCSV:
		out, err = newCSVWriter(w, columns)
	case FormatJSONL:
		out, err = newJSONWriter(w, columns)
	default:
		return 0, fmt.Errorf("export: no tables in format %q", format)
	}
	if err != nil {
		return 0, err
	}
	keys := jobs
	if !store.OfJobs(table) {
		keys = runKeys(runs)
	}
	for _, key := range keys {
		err := reader.Dump(ctx, table, key, "", func(values []any) error {
			rows++
			return out.row(values)
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, out.flush()
}

func runKeys(runs []store.Run) []string {
	keys := make([]string, len(runs))
	for i, r := range runs {
		keys[i] = r.Run
	}
	return keys
}

// csvWriter writes RFC 4180 with a header and LF line ends. NULL is an empty cell.
type csvWriter struct {
	w     *csv.Writer
	cells []string
}

func newCSVWriter(w io.Writer, columns []store.Column) (*csvWriter, error) {
	out := &csvWriter{csv.NewWriter(w), make([]string, len(columns))}
	for i, c := range columns {
		out.cells[i] = c.Name
	}
	if len(columns) == 0 { // the database's schema lacks the table
		return out, nil
	}
	return out, out.w.Write(out.cells)
}

func (c *csvWriter) row(values []any) error {
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			c.cells[i] = ""
		case int64:
			c.cells[i] = strconv.FormatInt(v, 10)
		case float64:
			c.cells[i] = decimal(v)
		case string:
			c.cells[i] = cell(v)
		default:
			return fmt.Errorf("export: a value of type %T", v)
		}
	}
	return c.w.Write(c.cells)
}

func (c *csvWriter) flush() error {
	c.w.Flush()
	return c.w.Error()
}

// cell makes text safe for spreadsheets, which evaluate text that begins with one of these signs as a formula. It adds
// a ' prefix to such text, also to text that begins with '. Removing one ' restores the text.
func cell(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if text != "" && strings.ContainsRune("=+-@'\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// decimal formats a number so that it parses to the same bits, without an exponent for common magnitudes.
func decimal(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// jsonWriter writes one JSON object per line, with keys in the columns' order. NULL and non-finite numbers are null.
type jsonWriter struct {
	w       *bufio.Writer
	keys    [][]byte // "name":
	columns []store.Column
	line    bytes.Buffer
}

func newJSONWriter(w io.Writer, columns []store.Column) (*jsonWriter, error) {
	out := &jsonWriter{w: bufio.NewWriterSize(w, 64<<10), columns: columns}
	for _, c := range columns {
		key, err := json.Marshal(c.Name)
		if err != nil {
			return nil, err
		}
		out.keys = append(out.keys, append(key, ':'))
	}
	return out, nil
}

func (j *jsonWriter) row(values []any) error {
	j.line.Reset()
	for i, v := range values {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		j.line.WriteByte(separator)
		j.line.Write(j.keys[i])
		if err := j.value(v, j.columns[i].JSON); err != nil {
			return err
		}
	}
	j.line.WriteString("}\n")
	_, err := j.w.Write(j.line.Bytes())
	return err
}

func (j *jsonWriter) value(v any, document bool) error {
	if text, ok := v.(string); ok && document {
		if text == "" {
			v = nil
		} else if json.Valid([]byte(text)) {
			return json.Compact(&j.line, []byte(text))
		}
	}
	if f, ok := v.(float64); ok && !units.Finite(f) {
		v = nil
	}
	text, err := json.Marshal(v)
	j.line.Write(text)
	return err
}

func (j *jsonWriter) flush() error { return j.w.Flush() }
