package dashboard

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// memoryDocument describes the memory of a run, over time and now.
type memoryDocument struct {
	Slot    int            `json:"slot"` // in seconds; each value is the maximum of its slot
	Nodes   []nodeMemory   `json:"nodes"`
	Devices []deviceMemory `json:"devices"`
	Ledger  []ledgerRow    `json:"ledger"` // current memory of this host's nodes; last known memory if the run has ended
	// Sum over all GPUs at the newest sample; null if there is none.
	CardBytes         *int64 `json:"card_bytes"`
	UsedBytes         *int64 `json:"used_bytes"`
	UnattributedBytes *int64 `json:"unattributed_bytes"` // used, but not by a node of the run
}

// nodeMemory is one node's memory by slot.
type nodeMemory struct {
	Node            string    `json:"node"`
	Time            []float64 `json:"time"` // start of the slot, Unix seconds
	RSSBytes        []int64   `json:"rss_bytes"`
	PeakRSSBytes    []int64   `json:"peak_rss_bytes"`
	HostBytes       []int64   `json:"host_bytes"` // PSS if known, else rss_bytes
	DeviceBytes     []int64   `json:"device_bytes"`
	DevicePeakBytes []int64   `json:"device_peak_bytes"`
}

// deviceMemory is one GPU by slot. Figures that the driver does not report are null.
type deviceMemory struct {
	UUID               string       `json:"uuid"`
	Index              int          `json:"index"`
	Name               string       `json:"name"`
	TotalBytes         int64        `json:"total_bytes"`
	Time               []float64    `json:"time"`
	UsedBytes          []int64      `json:"used_bytes"`
	UnattributedBytes  []int64      `json:"unattributed_bytes"`
	Utilization        stats.Values `json:"utilization"` // ratio
	PowerWatts         stats.Values `json:"power_watts"`
	TemperatureCelsius stats.Values `json:"temperature_celsius"`
}

// ledgerRow is the memory and the limit of one node.
type ledgerRow struct {
	Node            string `json:"node"`
	State           string `json:"state"`
	Device          string `json:"device"`
	ResidentBytes   int64  `json:"resident_bytes"`
	TransientBytes  int64  `json:"transient_bytes"`
	PeakBytes       int64  `json:"peak_bytes"`
	BudgetBytes     int64  `json:"budget_bytes"` // 0: none
	DeviceBytes     int64  `json:"device_bytes"`
	DevicePeakBytes int64  `json:"device_peak_bytes"`
	RSSBytes        int64  `json:"rss_bytes"`
	PeakRSSBytes    int64  `json:"peak_rss_bytes"`
	HostBytes       int64  `json:"host_bytes"`
	PeakHostBytes   int64  `json:"peak_host_bytes"`
	HostKind        string `json:"host_kind"` // of HostBytes and PeakHostBytes: pss, rss
	MicroBatch      int    `json:"micro_batch"`
}

const (
	recordedSlot = 10 // slot in seconds that the database uses
	memorySlots  = 400
	maxSlot      = 7 * 24 * 3600
	maxSlots     = 20_000 // per document
)

func (s *Server) getMemory(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	slot := p.whole("slot", 0, 1, maxSlot)
	if err := p.done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	if slot, err = k.slot(slot); err != nil {
		return nil, err
	}
	// New samples arrive every recordedSlot seconds, also between rounds.
	stamp := fmt.Sprint(k.stamp(), k.alive)
	if k.alive {
		stamp += fmt.Sprint(" ", time.Now().Unix()/recordedSlot)
	}
	return s.cached(fmt.Sprintf("memory %s %d", k.totals.Run.Run, slot), stamp, func() (any, error) {
		reader, err := s.db.open(ctx)
		if err != nil {
			return nil, err
		}
		return readMemory(ctx, reader, k, slot)
	})
}

// slot returns the length of a slot in seconds: as requested, or such that there are at most memorySlots slots.
func (k *known) slot(asked int) (int, error) {
	span := k.last() - k.totals.Started
	if asked == 0 {
		return max(1, int(math.Ceil(span/memorySlots/recordedSlot))) * recordedSlot, nil
	}
	if span/float64(asked) > maxSlots {
		return 0, badRequest("bad slot %d: allowed for this run: %d or more, because it lasts %.0f seconds", asked, int(math.Ceil(span/maxSlots)), span)
	}
	return asked, nil
}

func readMemory(ctx context.Context, reader *store.Reader, k *known, slot int) (memoryDocument, error) {
	d := memoryDocument{Slot: slot, Nodes: []nodeMemory{}, Devices: []deviceMemory{}, Ledger: ledger(k.status)}
	samples, err := reader.Memory(ctx, k.totals.Run.Run, 0, slot)
	if err != nil {
		return d, err
	}
	at := map[string]int{}
	for _, x := range samples {
		i, there := at[x.Node]
		if !there {
			i = len(d.Nodes)
			at[x.Node] = i
			d.Nodes = append(d.Nodes, nodeMemory{Node: x.Node})
		}
		n := &d.Nodes[i]
		n.Time, n.RSSBytes, n.PeakRSSBytes = append(n.Time, x.Time), append(n.RSSBytes, x.RSSBytes), append(n.PeakRSSBytes, x.PeakRSSBytes)
		n.HostBytes = append(n.HostBytes, x.Host())
		n.DeviceBytes, n.DevicePeakBytes = append(n.DeviceBytes, x.DeviceBytes), append(n.DevicePeakBytes, x.DevicePeakBytes)
	}
	devices, err := reader.Devices(ctx, k.totals.Run.Run, 0)
	if err != nil {
		return d, err
	}
	d.addDevices(devices, slot)
	return d, nil
}

func ledger(status stats.Status) []ledgerRow {
	rows := make([]ledgerRow, 0, len(status.Nodes))
	for _, n := range status.Nodes {
		if n.Worker != "" {
			continue // its memory belongs to another host
		}
		rows = append(rows, ledgerRow{
			Node: n.ID, State: n.State, Device: n.Device, ResidentBytes: n.ResidentBytes, TransientBytes: n.TransientBytes,
			PeakBytes: n.PeakMemoryBytes, BudgetBytes: n.BudgetBytes, DeviceBytes: n.DeviceBytes, DevicePeakBytes: n.DevicePeakBytes,
			RSSBytes: n.RSSBytes, PeakRSSBytes: n.PeakRSSBytes, MicroBatch: n.MicroBatch,
			HostBytes: n.HostBytes, PeakHostBytes: n.PeakHostBytes, HostKind: n.HostKind,
		})
	}
	return rows
}

// addDevices groups samples into slots as the database does: the maximum of used memory with its unattributed part, and
// the last value of other figures.
func (d *memoryDocument) addDevices(samples []store.DeviceSample, slot int) {
	at := map[string]int{}
	newest := map[string]store.DeviceSample{}
	for _, x := range samples {
		newest[x.UUID] = x
		i, there := at[x.UUID]
		if !there {
			i = len(d.Devices)
			at[x.UUID] = i
			d.Devices = append(d.Devices, deviceMemory{UUID: x.UUID, Index: x.Index, Name: x.Name})
		}
		d.Devices[i].add(x, math.Floor(x.Time/float64(slot))*float64(slot))
	}
	if len(newest) == 0 {
		return
	}
	var card, used, unattributed int64
	for _, x := range newest {
		card, used, unattributed = card+x.MemoryTotalBytes, used+x.MemoryUsedBytes, unattributed+x.UnattributedBytes
	}
	d.CardBytes, d.UsedBytes, d.UnattributedBytes = &card, &used, &unattributed
}

func (d *deviceMemory) add(x store.DeviceSample, slot float64) {
	d.TotalBytes = x.MemoryTotalBytes
	last := len(d.Time) - 1
	if last < 0 || d.Time[last] != slot {
		d.Time = append(d.Time, slot)
		d.UsedBytes, d.UnattributedBytes = append(d.UsedBytes, x.MemoryUsedBytes), append(d.UnattributedBytes, x.UnattributedBytes)
		d.Utilization, d.PowerWatts = append(d.Utilization, told(x.Utilization)), append(d.PowerWatts, told(x.PowerWatts))
		d.TemperatureCelsius = append(d.TemperatureCelsius, told(x.TemperatureCelsius))
		return
	}
	if x.MemoryUsedBytes > d.UsedBytes[last] {
		d.UsedBytes[last], d.UnattributedBytes[last] = x.MemoryUsedBytes, x.UnattributedBytes
	}
	d.Utilization[last], d.PowerWatts[last], d.TemperatureCelsius[last] = told(x.Utilization), told(x.PowerWatts), told(x.TemperatureCelsius)
}

// told converts -1, which means that the driver does not report the figure, to NaN.
func told(v float64) float64 {
	if v < 0 {
		return math.NaN()
	}
	return v
}
