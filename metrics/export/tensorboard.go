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

// tagOf returns a metric's tag: TRL's name, as logged by its GRPO trainer, or swarm/ and the metric's own name if TRL
// has none.
func tagOf(m event.Metric) string {
	if m.TRL != "" {
		return m.TRL
	}
	return "swarm/" + m.Name
}

// writeTensorBoard writes one log folder per node, RUN/NODE, and one for the mean over nodes, RUN/swarm. Steps are
// rounds, from 0.
func writeTensorBoard(ctx context.Context, reader *store.Reader, f *folder, runs []store.Run) error {
	names := safeNames{}
	for _, run := range runs {
		// Repeated exports have equal names, so that they replace the former one. TensorBoard sorts the files of a
		// folder by the time in their names.
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

// logFolder is the log folder of one run.
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

// node writes the recorded rounds of one node.
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
			if place := at(m.Name); place >= 0 { // older schemas lack some metrics
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
		curve.Nodes = nil // only the mean is needed, and the nodes of a long run use much memory
		curves = append(curves, curve)
	}
	if len(curves) == 0 {
		return nil
	}
	for i, round := range curves[0].Round {
		var points []point
		for n, c := range curves {
			if i < len(c.Round) && c.Round[i] == round && !math.IsNaN(c.Mean[i]) { // curves of a running swarm that are read later may be longer
				points = append(points, point{tagOf(metrics[n]), c.Mean[i]})
			}
		}
		if err := w.write(run.Started+curves[0].Time[i], int64(round), points); err != nil {
			return err
		}
	}
	return nil
}

// point is one scalar of an event.
type point struct {
	tag   string
	value float64
}

// eventWriter writes TensorBoard events as TFRecord records. Each record has its length, masked CRC-32C checksums of
// length and content, and an Event message (tensorboard/compat/proto/event.proto).
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

// begin writes the event with the file version, which readers require first.
func (w *eventWriter) begin(at float64) error {
	w.last = at
	message := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	message = protowire.AppendFixed64(message, math.Float64bits(at))
	message = protowire.AppendTag(message, eventFileVersion, protowire.BytesType)
	message = protowire.AppendString(message, "brain.Event:2")
	return w.record(message)
}

// write writes an event with scalars, or nothing without scalars. Values become float32, as the format requires.
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

// masked returns TFRecord's masked form of a checksum, which is robust for data that contain checksums.
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
