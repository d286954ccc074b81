package export

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// tagOf is a metric's tag: TRL's name, as its GRPO trainer logs it, or the metric's own below swarm/ where TRL has
// none.
func tagOf(m event.Metric) string {
	if m.TRL != "" {
		return m.TRL
	}
	return "swarm/" + m.Name
}

// writeTensorBoard writes one log folder for each node, RUN/NODE, and one for the mean over nodes, RUN/swarm. A step is
// a round, from 0.
func writeTensorBoard(ctx context.Context, reader *store.Reader, f *folder, runs []store.Run) error {
	names := safeNames{}
	for _, run := range runs {
		// The same export has the same names, and so replaces the former; the time is what TensorBoard sorts a folder's
		// files by.
		log := &logFolder{f, names.take(run.Run), fmt.Sprintf("events.out.tfevents.%010d.swarm", int64(run.Started)), safeNames{"swarm": true}}
		if err := log.swarm(ctx, reader, run); err != nil {
			return err
		}
		snapshot, err := reader.Snapshot(ctx, run.Run)
		if err != nil {
			return err
		}
		for _, n := range snapshot.Nodes {
			if err := log.node(ctx, reader, run, n.Node); err != nil {
				return err
			}
		}
	}
	return nil
}

// logFolder is one run's.
type logFolder struct {
	f     *folder
	name  string
	file  string
	nodes safeNames
}

func (l *logFolder) write(name string, run store.Run, fill func(w *eventWriter) error) error {
	return l.f.write(filepath.Join(l.name, name, l.file), func(out io.Writer) (int, error) {
		w := &eventWriter{out: bufio.NewWriterSize(out, 64<<10)}
		if err := w.begin(run.Started); err != nil {
			return 0, err
		}
		if err := fill(w); err != nil {
			return w.events, err
		}
		return w.events, w.out.Flush()
	})
}

// node writes what one node recorded of its rounds.
func (l *logFolder) node(ctx context.Context, reader *store.Reader, run store.Run, node string) error {
	return l.write(l.nodes.take(node), run, func(w *eventWriter) error {
		columns, err := reader.Columns(ctx, "rounds")
		if err != nil {
			return err
		}
		at := func(name string) int {
			return slices.IndexFunc(columns, func(c store.Column) bool { return c.Name == name })
		}
		round, time := at("round"), at("time")
		var tags []string
		var places []int
		for _, m := range event.Metrics() {
			if place := at(m.Name); place >= 0 { // an older schema has not all of them
				tags, places = append(tags, tagOf(m)), append(places, place)
			}
		}
		return reader.Dump(ctx, "rounds", run.Run, node, func(row []any) error {
			points := make([]point, 0, len(tags))
			for i, tag := range tags {
				if v, ok := float(row[places[i]]); ok {
					points = append(points, point{tag, v})
				}
			}
			ended, _ := float(row[time])
			return w.write(ended, row[round].(int64), points)
		})
	})
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int64:
		return float64(v), true
	}
	return 0, false
}

// swarm writes the mean over nodes of every metric, and the held-out evaluations.
func (l *logFolder) swarm(ctx context.Context, reader *store.Reader, run store.Run) error {
	return l.write("swarm", run, func(w *eventWriter) error {
		if err := w.means(ctx, reader, run); err != nil {
			return err
		}
		evaluations, err := query.Evaluations(ctx, reader, run)
		if err != nil {
			return err
		}
		for _, row := range evaluations.Rows {
			points := []point{{"eval/reward", row.Reward}}
			for _, p := range row.Pass {
				points = append(points, point{fmt.Sprintf("eval/pass@%d", p.K), p.Value})
			}
			if err := w.write(w.last, int64(row.Round), points); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *eventWriter) means(ctx context.Context, reader *store.Reader, run store.Run) error {
	var curves []stats.Curve
	metrics := event.Metrics()
	for _, m := range metrics {
		curve, err := query.Curve(ctx, reader, run, m.Name, stats.CurveOptions{})
		if err != nil {
			return err
		}
		curve.Nodes = nil // only the mean is needed: a long run's nodes would fill the memory
		curves = append(curves, curve)
	}
	if len(curves) == 0 {
		return nil
	}
	for i, round := range curves[0].Round {
		var points []point
		for n, c := range curves {
			if i < len(c.Round) && c.Round[i] == round && !math.IsNaN(c.Mean[i]) { // a running swarm's later curves may be longer
				points = append(points, point{tagOf(metrics[n]), c.Mean[i]})
			}
		}
		if err := w.write(run.Started+curves[0].Time[i], int64(round), points); err != nil {
			return err
		}
	}
	return nil
}

// point is a scalar of an event.
type point struct {
	tag   string
	value float64
}

// eventWriter writes TensorBoard events: records of TFRecord, each with a length and masked CRC-32C sums of length and
// content, that hold Event messages (tensorboard/compat/proto/event.proto).
type eventWriter struct {
	out    *bufio.Writer
	buffer []byte
	events int
	last   float64 // Unix seconds of the newest event
}

// Field numbers of event.proto and summary.proto.
const (
	eventWallTime, eventStep, eventFileVersion, eventSummary = 1, 2, 3, 5
	summaryValue                                             = 1
	valueTag, valueSimple                                    = 1, 2
)

// begin writes the event that names the file's version, which readers want first.
func (w *eventWriter) begin(at float64) error {
	w.last = at
	message := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	message = protowire.AppendFixed64(message, math.Float64bits(at))
	message = protowire.AppendTag(message, eventFileVersion, protowire.BytesType)
	message = protowire.AppendString(message, "brain.Event:2")
	return w.record(message)
}

// write writes an event with scalars; of none, nothing. Values become float32: the format's scalars are.
func (w *eventWriter) write(at float64, step int64, points []point) error {
	if len(points) == 0 {
		return nil
	}
	w.last = max(w.last, at)
	var summary []byte
	for _, p := range points {
		value := protowire.AppendTag(nil, valueTag, protowire.BytesType)
		value = protowire.AppendString(value, strings.ToValidUTF8(p.tag, "\uFFFD"))
		value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(p.value)))
		summary = protowire.AppendTag(summary, summaryValue, protowire.BytesType)
		summary = protowire.AppendBytes(summary, value)
	}
	w.buffer = protowire.AppendTag(w.buffer[:0], eventWallTime, protowire.Fixed64Type)
	w.buffer = protowire.AppendFixed64(w.buffer, math.Float64bits(at))
	w.buffer = protowire.AppendTag(w.buffer, eventStep, protowire.VarintType)
	w.buffer = protowire.AppendVarint(w.buffer, uint64(step))
	w.buffer = protowire.AppendTag(w.buffer, eventSummary, protowire.BytesType)
	w.buffer = protowire.AppendBytes(w.buffer, summary)
	w.events++
	return w.record(w.buffer)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is TFRecord's form of a sum, so that sums of data that holds sums don't fool.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

func (w *eventWriter) record(data []byte) error {
	header := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	header = binary.LittleEndian.AppendUint32(header, masked(header))
	footer := binary.LittleEndian.AppendUint32(nil, masked(data))
	for _, part := range [][]byte{header, data, footer} {
		if _, err := w.out.Write(part); err != nil {
			return err
		}
	}
	return nil
}
