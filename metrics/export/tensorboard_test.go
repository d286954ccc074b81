package export

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// The check value of CRC-32C (RFC 3720, B.4: 32 bytes of zeros), masked as TFRecord specifies.
func TestMaskedSum(t *testing.T) {
	sum := uint32(0x8a9136aa)
	require.Equal(t, (sum>>15|sum<<17)+0xa282ead8, masked(make([]byte, 32)))
}

// eventType returns the part of event.proto and summary.proto that scalars need.
func eventType(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		if name == "value" {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		return f
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("event.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Event"), Field: []*descriptorpb.FieldDescriptorProto{
				field("wall_time", 1, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, ""), field("step", 2, descriptorpb.FieldDescriptorProto_TYPE_INT64, ""),
				field("file_version", 3, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""),
				field("summary", 5, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".Summary")}},
			{Name: proto.String("Summary"), Field: []*descriptorpb.FieldDescriptorProto{
				field("value", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".Value")}},
			{Name: proto.String("Value"), Field: []*descriptorpb.FieldDescriptorProto{
				field("tag", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""), field("simple_value", 2, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "")}},
		},
	}, nil)
	require.NoError(t, err)
	return file.Messages().ByName("Event")
}

// scalar is one scalar found by a reader.
type scalar struct {
	Tag   string
	Step  int64
	Time  float64
	Value float64
}

// scalars reads an event file with the protobuf library's own parser.
func scalars(t *testing.T, path string) (found []scalar) {
	t.Helper()
	kind := eventType(t)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for first := true; len(text) > 0; first = false {
		length := binary.LittleEndian.Uint64(text)
		require.Equal(t, masked(text[:8]), binary.LittleEndian.Uint32(text[8:]))
		data := text[12 : 12+length]
		require.Equal(t, masked(data), binary.LittleEndian.Uint32(text[12+length:]))
		text = text[16+length:]
		e := dynamicpb.NewMessage(kind)
		require.NoError(t, proto.Unmarshal(data, e))
		require.Empty(t, e.GetUnknown())
		get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
			return m.Get(m.Descriptor().Fields().ByName(name))
		}
		if first {
			require.Equal(t, "brain.Event:2", get(e, "file_version").String())
			continue
		}
		values := get(get(e, "summary").Message(), "value").List()
		for i := range values.Len() {
			v := values.Get(i).Message()
			found = append(found, scalar{get(v, "tag").String(), get(e, "step").Int(), get(e, "wall_time").Float(), get(v, "simple_value").Float()})
		}
	}
	return found
}

func TestEventFilesHoldWhatWasRecorded(t *testing.T) {
	reader, runs := database(t, 1, 3, 5)
	dir := t.TempDir()
	files, err := Folder(t.Context(), reader, dir, Options{Format: FormatTensorBoard, Runs: runs})
	require.NoError(t, err)
	require.Len(t, files, 4)
	const name = "events.out.tfevents.0000001000.swarm"
	node := scalars(t, filepath.Join(dir, "x-0", "node_0", name))
	require.Contains(t, node, scalar{"reward", 0, 1000.123456, float64(float32(1.0 / 3))})
	require.Contains(t, node, scalar{"completions/mean_length", 4, 1004.123456, 100})
	require.Contains(t, node, scalar{"clip_ratio/high_mean", 4, 1004.123456, 0.25})
	require.Contains(t, node, scalar{"swarm/completions", 4, 1004.123456, 32})
	require.Contains(t, node, scalar{"sampling/sampling_logp_difference/max", 4, 1004.123456, 0.5})
	require.Contains(t, node, scalar{"sampling/sampling_logp_difference/mean", 4, 1004.123456, 0.125})
	require.False(t, slices.ContainsFunc(node, func(s scalar) bool { return s.Tag == "reward" && s.Step == 1 }), "what is no number is left out")

	mean := scalars(t, filepath.Join(dir, "x-0", "swarm", name))
	curve, err := query.Curve(t.Context(), reader, runs[0], "reward", stats.CurveOptions{})
	require.NoError(t, err)
	for i, round := range curve.Round {
		require.Contains(t, mean, scalar{"reward", int64(round), 1000 + curve.Time[i], float64(float32(curve.Mean[i]))})
	}
	require.Contains(t, mean, scalar{"eval/pass@1", 5, 1004.123456, 0.25})
	require.Contains(t, mean, scalar{"eval/reward", 5, 1004.123456, 0.375})
	for _, metric := range event.Metrics() {
		require.True(t, slices.ContainsFunc(node, func(s scalar) bool { return s.Tag == tagOf(metric) }), metric.Name)
	}
}

// readTensorBoard reads a log folder with TensorBoard's own classes, and prints every scalar with the tag reward.
const readTensorBoard = `
import json, sys
from tensorboard.backend.event_processing import plugin_event_multiplexer
m = plugin_event_multiplexer.EventMultiplexer(size_guidance={"tensors": 0})
m.AddRunsFromDirectory(sys.argv[1]); m.Reload()
print(json.dumps({run: {"tags": sorted(m.PluginRunToTagToContent("scalars").get(run, {})),
    "reward": [[e.step, e.wall_time, e.tensor_proto.float_val[0]] for e in m.Tensors(run, "reward")]} for run in m.Runs()}))
`

// SWARM_TENSORBOARD is the path of the package tensorboard: an installed one, or github.com/tensorflow/tensorboard with
// compiled .proto files (protoc --python_out=.).
func TestTensorBoardItselfReadsThem(t *testing.T) {
	python := "/usr/bin/python3"
	environment := append(os.Environ(), "PYTHONPATH="+os.Getenv("SWARM_TENSORBOARD"), "PYTHONDONTWRITEBYTECODE=1")
	try := exec.Command(python, "-c", "import tensorboard.backend.event_processing.plugin_event_multiplexer")
	try.Env = environment
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("TensorBoard isn't here (SWARM_TENSORBOARD can tell where): %v: %.200s", err, out)
	}
	reader, runs := database(t, 2, 3, 200)
	dir := t.TempDir()
	_, err := Folder(t.Context(), reader, dir, Options{Format: FormatTensorBoard, Runs: runs})
	require.NoError(t, err)
	command := exec.Command(python, "-c", readTensorBoard, dir)
	command.Env = environment
	out, err := command.Output()
	require.NoError(t, err)
	var found map[string]struct {
		Tags   []string
		Reward [][3]float64
	}
	require.NoError(t, json.Unmarshal(out, &found))
	require.Len(t, found, 8)
	for _, run := range runs {
		curve, err := query.Curve(t.Context(), reader, run, "reward", stats.CurveOptions{})
		require.NoError(t, err)
		require.Contains(t, found[run.Run+"/swarm"].Tags, "eval/pass@1")
		require.Len(t, found[run.Run+"/swarm"].Reward, 200)
		for i, got := range found[run.Run+"/swarm"].Reward {
			require.Equal(t, []float64{float64(curve.Round[i]), 1000 + curve.Time[i], float64(float32(curve.Mean[i]))}, got[:])
		}
		for _, n := range curve.Nodes {
			at := 0
			for i, v := range n.Values {
				if math.IsNaN(v) {
					continue
				}
				got := found[fmt.Sprintf("%s/%s", run.Run, n.Node)].Reward[at]
				require.Equal(t, []float64{float64(curve.Round[i]), float64(float32(v))}, []float64{got[0], got[2]})
				at++
			}
		}
	}
}
