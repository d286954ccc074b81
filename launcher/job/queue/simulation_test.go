package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// job is a simulated `swarm run`.
type job struct {
	entry   Entry
	runs    int   // remaining looks of any job that it runs for
	retries int   // how often it returns its memory and requests memory again
	uses    int64 // used part of its claim
	ended   bool
	sees    []string
}

// host is a simulated machine. Its time advances with every look.
type host struct {
	t         *rapid.T
	devices   []Device // only Total is set; look sets the rest
	strangers []int64
	told      bool // the driver reports the memory of processes
	jobs      []*job
}

// look returns the devices as the driver would report them.
func (h *host) look(sees []string) []Device {
	var devices []Device
	for i, r := range h.devices {
		r.Free = r.Total - h.strangers[i]
		if h.told {
			r.Processes = map[int]int64{1 << 22: h.strangers[i]}
		}
		for _, j := range h.jobs {
			if j.entry.Claim != nil && j.entry.Claim.GPU == r.GPU {
				r.Free -= j.uses
				if h.told {
					r.Processes[j.entry.Owner.PID] = j.uses
				}
			}
		}
		if slices.Contains(sees, r.GPU) {
			devices = append(devices, r)
		}
	}
	return devices
}

// entries returns the tickets of jobs that have not ended.
func (h *host) entries() []Entry {
	var all []Entry
	for _, j := range h.jobs {
		if !j.ended {
			all = append(all, j.entry)
		}
	}
	return all
}

// claims returns the claims on a GPU of the tickets for which f returns true.
func (h *host) claims(gpu string, f func(Entry) bool) (bytes int64, alone bool, count int) {
	for _, e := range h.entries() {
		if e.Claim != nil && e.Claim.GPU == gpu && f(e) {
			bytes += e.Claim.Bytes
			alone = alone || e.Claim.Exclusive
			count++
		}
	}
	return bytes, alone, count
}

func everybody(Entry) bool { return true }

// serve lets a waiting job try, and checks the invariants.
func (h *host) serve(j *job) {
	devices := h.look(j.sees)
	j.entry.Sees = j.sees
	claim, verdict := decide(h.entries(), j.entry.Number, devices, 0)
	if !verdict.Granted {
		h.checkRefusal(j, devices, verdict)
		return
	}
	j.entry.Claim, j.uses = &claim, 0
	for i, r := range h.devices {
		sum, alone, count := h.claims(r.GPU, everybody)
		if sum > r.Total-h.strangers[i] {
			h.t.Fatalf("claims of %d on %s, which has %d less %d of strangers", sum, r.GPU, r.Total, h.strangers[i])
		}
		if alone && count > 1 {
			h.t.Fatalf("%d claims on %s, one of them alone", count, r.GPU)
		}
	}
	h.checkNobodyDelayed(j)
}

// checkRefusal checks that only the needs of earlier tickets cause a refusal.
func (h *host) checkRefusal(j *job, devices []Device, v Verdict) {
	for _, other := range h.jobs {
		if other.entry.Number < j.entry.Number && !other.ended {
			return
		}
	}
	for _, r := range devices {
		if _, _, count := h.claims(r.GPU, everybody); count == 0 && r.Free >= j.entry.Need.amount() {
			h.t.Fatalf("the oldest ticket is refused %s, which is free: %s", r.GPU, v)
		}
	}
}

// checkNobodyDelayed checks that for each earlier ticket, later tickets leave enough of some GPU.
func (h *host) checkNobodyDelayed(j *job) {
	for _, w := range h.jobs {
		e := w.entry
		if e.Claim != nil || w.ended || e.Number > j.entry.Number {
			continue
		}
		clear, possible := false, false
		for i, r := range h.devices {
			if !slices.Contains(w.sees, r.GPU) {
				continue
			}
			room := r.Total - h.strangers[i]
			possible = possible || room >= e.Need.amount()
			later, _, count := h.claims(r.GPU, func(o Entry) bool { return o.Number > e.Number })
			clear = clear || room-later >= e.Need.amount() && (!e.Need.Exclusive || count == 0)
		}
		if possible && !clear {
			h.t.Fatalf("ticket %d, served, is in the way of ticket %d: %+v", j.entry.Number, e.Number, e.Need)
		}
	}
}

// pass advances the time a little.
func (h *host) pass() {
	for _, j := range h.jobs {
		if j.entry.Claim == nil || j.ended {
			continue
		}
		j.uses = min(j.entry.Claim.Bytes, j.uses+1+j.entry.Claim.Bytes/3)
		if j.runs--; j.runs > 0 {
			continue
		}
		j.entry.Claim, j.uses = nil, 0
		j.ended = j.retries == 0
		j.retries--
		j.runs = 3
	}
}

// served reports whether all jobs have ended, except those too large for every GPU that they see.
func (h *host) served() bool {
	for _, j := range h.jobs {
		fits := false
		for i, r := range h.devices {
			fits = fits || slices.Contains(j.sees, r.GPU) && r.Total-h.strangers[i] >= j.entry.Need.amount()
		}
		if fits && !j.ended {
			return false
		}
	}
	return true
}

func newHost(t *rapid.T) *host {
	h := &host{t: t, told: rapid.Bool().Draw(t, "told")}
	for i := range rapid.IntRange(1, 4).Draw(t, "gpus") {
		total := rapid.Int64Range(8, 24).Draw(t, "total")
		h.devices = append(h.devices, Device{GPU: fmt.Sprintf("GPU-%d", i), Index: i, Total: total})
		h.strangers = append(h.strangers, rapid.Int64Range(0, 6).Draw(t, "strangers"))
	}
	return h
}

func (h *host) arrive() {
	t, number := h.t, uint64(len(h.jobs)+1)
	need := Need{Bytes: rapid.Int64Range(0, 24).Draw(t, "bytes"), Exclusive: rapid.IntRange(0, 7).Draw(t, "exclusive") == 0}
	if rapid.IntRange(0, 4).Draw(t, "with minimum") == 0 {
		need.MinFree = rapid.Int64Range(0, 24).Draw(t, "minimum")
	}
	var all []string
	for _, r := range h.devices {
		all = append(all, r.GPU)
	}
	sees := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "sees")
	retries := rapid.IntRange(0, 2).Draw(t, "retries")
	if need.MinFree > need.Bytes {
		retries = 0 // later tickets may have taken what a second attempt needs beyond its claim
	}
	pid := int(number)
	h.jobs = append(h.jobs, &job{
		entry: Entry{
			Number: number, Name: fmt.Sprint("job ", number), Need: need,
			Owner: supervise.Identity{PID: pid}, Processes: []supervise.Identity{{PID: pid}}, Sees: sees,
		},
		runs: rapid.IntRange(1, 40).Draw(t, "runs"), retries: retries, sees: sees,
	})
}

// For any arrivals, any order of looks and any run times, no byte is claimed twice and exclusive claims are alone. No
// ticket delays an earlier one, the oldest takes a free GPU, and all jobs are served.
func TestNobodyWaitsForWhoCameLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHost(t)
		for range rapid.IntRange(1, 14).Draw(t, "jobs") {
			h.arrive()
			for range rapid.IntRange(0, 6).Draw(t, "looks") {
				h.pass()
				if j := rapid.SampledFrom(h.jobs).Draw(t, "looks"); j.entry.Claim == nil && !j.ended {
					h.serve(j)
				}
			}
		}
		for rounds := 0; !h.served(); rounds++ {
			if rounds > 14*3*41 { // each attempt after the other, with a look between
				t.Fatalf("not all are served after %d rounds", rounds)
			}
			h.pass()
			for _, j := range rapid.Permutation(h.jobs).Draw(t, "order") {
				if j.entry.Claim == nil && !j.ended {
					h.serve(j)
				}
			}
		}
	})
}

// The oldest remaining ticket is served at its first look, whatever the later tickets hold, if it arrived before
// them.
func TestTheOldestIsServedWhenAllBeforeItHaveEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHost(t)
		for range rapid.IntRange(2, 12).Draw(t, "jobs") {
			h.arrive()
			j := h.jobs[len(h.jobs)-1]
			j.runs = 1 << 30 // until the test ends it below
			j.retries = 0
		}
		for range rapid.IntRange(10, 60).Draw(t, "looks") {
			if j := rapid.SampledFrom(h.jobs).Draw(t, "looks"); j.entry.Claim == nil {
				h.serve(j)
			}
			h.pass()
		}
		for _, j := range h.jobs {
			possible := false
			for i, r := range h.devices {
				possible = possible || slices.Contains(j.sees, r.GPU) && r.Total-h.strangers[i] >= j.entry.Need.amount()
			}
			if j.entry.Claim == nil && possible {
				h.serve(j)
				if j.entry.Claim == nil {
					t.Fatalf("ticket %d, the oldest, isn't served: %+v", j.entry.Number, j.entry.Need)
				}
			}
			j.entry.Claim, j.uses, j.ended = nil, 0, true
		}
	})
}

func TestAnOwnerThatDoesNotLookHoldsNobodyUp(t *testing.T) {
	devices := []Device{{GPU: "GPU-0", Total: 10, Free: 10}}
	entries := []Entry{{Number: 1, Name: "stopped", Need: Need{Bytes: 8}, Interval: time.Minute}, {Number: 2, Need: Need{Bytes: 8}}}
	for now, granted := range map[time.Duration]bool{0: false, 3 * time.Minute: false, 3*time.Minute + 1: true} {
		if _, verdict := decide(entries, 2, devices, now); verdict.Granted != granted {
			t.Errorf("after %s: %s", now, verdict)
		}
	}
}
