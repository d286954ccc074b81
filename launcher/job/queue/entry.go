package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// Limits of a ticket's file, which any process may have written.
const (
	entryLimit = 256 << 10 // bytes
	nameLimit  = 200       // bytes
	pidLimit   = 1024      // recorded processes of an attempt
	gpuLimit   = 256       // GPUs of one host
	bytesLimit = 1 << 50

	intervalLimit = 30 * 24 * time.Hour
)

// Entry is the content of a ticket's file.
type Entry struct {
	Number    uint64               `json:"number"` // in order of arrival
	Name      string               `json:"name"`
	Host      string               `json:"host"`
	Owner     supervise.Identity   `json:"owner"` // the `swarm run` process
	Space     string               `json:"pid_namespace"`
	Entered   time.Time            `json:"entered"` // for display only
	Need      Need                 `json:"need"`
	Claim     *Claim               `json:"claim,omitempty"`     // nil: the ticket waits
	Processes []supervise.Identity `json:"processes,omitempty"` // of the attempt that has the claim
	Sees      []string             `json:"sees,omitempty"`      // GPUs visible at its last look; empty: it has not looked yet
	Looked    time.Duration        `json:"looked"`              // time of the last look, by the monotonic clock
	Interval  time.Duration        `json:"interval"`            // between its looks

	Orphaned bool `json:"-"` // its owner is dead, but some of its processes run
}

// absence is how long a ticket may go without a look before it loses its reservation. Tickets with a long interval
// get three intervals.
const absence = time.Minute

// present reports whether a ticket still looks for its turn.
func (e *Entry) present(now time.Duration) bool { return now-e.Looked <= max(absence, 3*e.Interval) }

// visible reports whether a ticket may use a GPU, as far as its owner has recorded.
func (e *Entry) visible(gpu string) bool {
	if e.Need.GPU != "" {
		return e.Need.GPU == gpu
	}
	return gpu != CPU && (len(e.Sees) == 0 || slices.Contains(e.Sees, gpu))
}

// decodeEntry parses a ticket's file of at most entryLimit bytes.
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

// check returns an error for content that this package does not write.
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
		return fmt.Errorf("bad times of checks: every %s, last at %s", e.Interval, e.Looked)
	case len(e.Name) > nameLimit, len(e.Processes) > pidLimit, len(e.Sees) > gpuLimit:
		return fmt.Errorf("too long for a ticket")
	case e.Claim != nil && e.Claim.GPU == "":
		return fmt.Errorf("a claim without a GPU")
	case e.Owner.PID <= 0 || e.Owner.Boot == "":
		return fmt.Errorf("no owner")
	}
	return nil
}

// encode returns the content of a ticket's file.
func (e *Entry) encode() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, fmt.Errorf("queue: encode ticket: %w", err)
	}
	return b.Bytes(), nil
}
