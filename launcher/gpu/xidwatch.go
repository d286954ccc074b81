package gpu

import (
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	xidWait  = 250 * time.Millisecond // for one wait for an event; bounds the duration of close
	xidPause = 5 * time.Second        // after a failed wait; on a lost GPU waits fail at once
	xidsKept = 256                    // until taken; later ones are dropped
)

// XID is an error that the driver reports for a GPU.
type XID struct {
	Time  float64 // Unix seconds
	Index int     // of the whole GPU; -1: unknown
	UUID  string  // empty: unknown
	Code  int
}

// xidWatch collects XID errors. Its nil value collects none.
type xidWatch struct {
	session *session
	set     nvml.EventSet
	watched map[nvml.Device]XID // GPUs, as the XIDs that they report

	stop    chan struct{}
	stopped chan struct{}

	mu   sync.Mutex
	seen []XID
}

// watchXIDs listens to the devices that support XID events. It returns nil if none does.
func (s *session) watchXIDs(devices []handle) *xidWatch {
	for _, function := range []string{
		"nvmlEventSetCreate", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents", "nvmlEventSetFree",
	} {
		if !s.knows[function] {
			return nil
		}
	}
	if !s.knows["nvmlEventSetWait"] && !s.knows["nvmlEventSetWait_v2"] {
		return nil
	}
	set, ok := optional(s, "nvmlEventSetCreate", s.lib.EventSetCreate)
	if !ok {
		return nil
	}
	w := &xidWatch{session: s, set: set, watched: map[nvml.Device]XID{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	registered := false
	for _, h := range devices {
		device, uuid, index := h.device, h.UUID, h.Index
		if h.parent != nil {
			device, uuid, index = h.parent, h.parentUUID, *h.InstanceOf
		}
		if _, twice := w.watched[device]; !twice {
			w.watched[device] = XID{Index: index, UUID: uuid}
			registered = s.register(device, set) || registered
		}
	}
	if !registered {
		w.free()
		return nil
	}
	go w.serve()
	return w
}

func (s *session) register(device nvml.Device, set nvml.EventSet) bool {
	types, ok := optional(s, "nvmlDeviceGetSupportedEventTypes", device.GetSupportedEventTypes)
	if !ok || types&nvml.EventTypeXidCriticalError == 0 {
		return false
	}
	_, ok = optional(s, "nvmlDeviceRegisterEvents", func() (struct{}, nvml.Return) {
		return struct{}{}, device.RegisterEvents(nvml.EventTypeXidCriticalError, set)
	})
	return ok
}

func (w *xidWatch) free() {
	binding.RLock()
	defer binding.RUnlock()
	w.set.Free()
}

func (w *xidWatch) serve() {
	defer close(w.stopped)
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		binding.RLock()
		data, ret := w.set.Wait(uint32(xidWait.Milliseconds()))
		binding.RUnlock()
		switch ret {
		case nvml.SUCCESS:
			w.add(data)
		case nvml.ERROR_TIMEOUT:
		default:
			select {
			case <-w.stop:
			case <-time.After(xidPause):
			}
		}
	}
}

func (w *xidWatch) add(data nvml.EventData) {
	if data.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	// A query for the UUID can fail or hang after an XID, so the handle comes first.
	xid, known := w.watched[data.Device]
	if !known {
		_, xid.UUID, _ = w.session.identity(data.Device)
		xid.Index = -1
		for _, x := range w.watched {
			if x.UUID == xid.UUID || len(w.watched) == 1 {
				xid = x
			}
		}
	}
	xid.Time, xid.Code = event.Now(), int(data.EventData)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) < xidsKept {
		w.seen = append(w.seen, xid)
	}
}

// take returns the errors collected since the last call.
func (w *xidWatch) take() []XID {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// close stops listening, within xidWait if the driver answers.
func (w *xidWatch) close() {
	if w == nil {
		return
	}
	close(w.stop)
	<-w.stopped
	w.free()
}
