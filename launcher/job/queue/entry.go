package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// Bounds of a ticket's file, which anybody may have written.
const (
	entryLimit = 256 << 10 // bytes
	nameLimit  = 200       // bytes
	pidLimit   = 1024      // processes of an attempt that are recorded
	gpuLimit   = 256       // GPUs of one host
	bytesLimit = 1 << 50

	intervalLimit = 30 * 24 * time.Hour
)

// Entry is a ticket as its file tells of it.
type Entry struct {
	Number    uint64               `json:"number"` // by order of arrival
	Name      string               `json:"name"`
	Host      string               `json:"host"`
	Owner     supervise.Identity   `json:"owner"` // the `swarm run`
	Space     string               `json:"pid_namespace"`
	Entered   time.Time            `json:"entered"` // for people: nothing is decided by it
	Need      Need                 `json:"need"`
	Claim     *Claim               `json:"claim,omitempty"`     // nil: it waits
	Processes []supervise.Identity `json:"processes,omitempty"` // of the attempt that has the claim
	Sees      []string             `json:"sees,omitempty"`      // the GPUs that it saw at its last look; none: it has not looked yet
	Looked    time.Duration        `json:"looked"`              // when that was, by the kernel's monotonic clock
	Interval  time.Duration        `json:"interval"`            // how often it looks

	Orphaned bool `json:"-"` // its owner is dead, but not all of its processes
}

// absence is how long a ticket may not look before it holds nobody up any longer, where it looks more often than every
// third of this.
const absence = time.Minute

// present says whether a ticket still looks for its turn.
func (e *Entry) present(now time.Duration) bool { return now-e.Looked <= max(absence, 3*e.Interval) }

// visible says whether a ticket may use a GPU, as far as its owner has said.
func (e *Entry) visible(gpu string) bool {
	if e.Need.GPU != "" {
		return e.Need.GPU == gpu
	}
	return gpu != CPU && (len(e.Sees) == 0 || slices.Contains(e.Sees, gpu))
}

// decodeEntry reads a ticket's file, of no more than entryLimit.
func decodeEntry(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, err
	}
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// check refuses what this package wouldn't have written.
func (e *Entry) check() error {
	sizes := [4]int64{e.Need.Bytes, e.Need.MinFree}
	if e.Claim != nil {
		sizes[2], sizes[3] = e.Claim.Bytes, e.Claim.Strangers
	}
	for _, n := range sizes {
		if n < 0 || n > bytesLimit {
			return fmt.Errorf("%d bytes", n)
		}
	}
	switch {
	case e.Number == 0:
		return fmt.Errorf("no number")
	case e.Looked < 0 || e.Interval < 0 || e.Interval > intervalLimit:
		return fmt.Errorf("looks every %s, last at %s", e.Interval, e.Looked)
	case len(e.Name) > nameLimit, len(e.Processes) > pidLimit, len(e.Sees) > gpuLimit:
		return fmt.Errorf("more than a ticket can have")
	case e.Claim != nil && e.Claim.GPU == "":
		return fmt.Errorf("a claim without a GPU")
	case e.Owner.PID <= 0 || e.Owner.Boot == "":
		return fmt.Errorf("no owner")
	}
	return nil
}

// encode is the content of a ticket's file.
func (e *Entry) encode() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, fmt.Errorf("queue: encode ticket: %w", err)
	}
	return b.Bytes(), nil
}
