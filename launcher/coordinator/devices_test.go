package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// A run gets the fatal XID of a GPU whose driver hangs, also if there was no GPU when the run began.
func TestAFatalXIDIsAFaultWhileTheDriverHangs(t *testing.T) {
	library, err := fakenvml.BuildIn(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	write := fakenvml.File(t)
	write("")
	t.Setenv(gpu.LibraryVariable, library)
	t.Setenv(gpu.VisibleVariable, "0,1")

	events, logged := make(chan event.Event, 64), make(lines, 64)
	next := func(kind event.Type) event.Event {
		for {
			if e := <-events; e.Type == kind {
				return e
			}
		}
	}
	one := 1
	w := newDeviceWatch(fit.Plan{Placement: []fit.Placement{{Node: "node_0", GPU: &one}}}, func(e event.Event) { events <- e },
		slog.New(slog.NewTextHandler(logged, nil)))
	w.answer, w.reopening = 100*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { w.serve(ctx) })
	defer serving.Wait()
	defer cancel()

	require.Contains(t, <-logged, "the GPUs are not monitored yet")
	write("Tesla T4:15360:15000\nTesla T4:15360:15000\n")
	require.Equal(t, 1, next(event.TypeDevice).Device.Index)

	write("Tesla T4:15360:15000\nTesla T4:15360:15000:xid=119,hang\n")
	defer write("Tesla T4:15360:15000\nTesla T4:15360:15000\n")
	require.Contains(t, next(event.TypeWarning).Message, "GPU 1: XID 119")
	require.Equal(t, launch.Fault{GPU: 1, Message: "XID 119: the GPU's system processor does not answer (GSP RPC timeout)", Fatal: true}, <-w.faults)
	require.Contains(t, <-logged, "the driver did not answer for 100ms")
}

// lines is a writer of log lines.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}
