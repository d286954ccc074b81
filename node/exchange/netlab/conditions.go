package netlab

import (
	"fmt"
	"time"
)

// Conditions are those of a link between two hosts, alike in both directions but for the cuts.
type Conditions struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // added to Delay, evenly drawn from 0..Jitter; packets keep their order
	Loss      float64       // share of packets that vanish, 0..1
	RateBytes float64       // bytes a second; 0: no limit
	Queue     time.Duration // of packets that may wait for the rate; 0: DefaultQueue. What doesn't fit is dropped

	CutAB bool // nothing arrives from the first of the link's hosts at the second, what is under way included
	CutBA bool
}

// DefaultQueue is that of a home router: bloated, not endless.
const DefaultQueue = 500 * time.Millisecond

func (c Conditions) check() error {
	switch {
	case c.Delay < 0 || c.Jitter < 0 || c.Queue < 0:
		return fmt.Errorf("delay %s, jitter %s, queue %s: none may be negative", c.Delay, c.Jitter, c.Queue)
	case c.Loss < 0 || c.Loss > 1:
		return fmt.Errorf("loss %v: 0 to 1", c.Loss)
	case c.RateBytes < 0:
		return fmt.Errorf("rate %v bytes/s: 0 or more", c.RateBytes)
	}
	return nil
}

// Counts are what became of the packets of one direction.
type Counts struct {
	Packets, Bytes             int64 // that arrived
	Cut, Lost, Overflowed      int64 // packets dropped: by a cut, by chance, by a full queue
	LongestWait, LongestBehind time.Duration
}
