package netlab

import (
	"fmt"
	"time"
)

// Conditions are the properties of a link between two hosts, equal in both directions except for the cuts.
type Conditions struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // added to Delay, uniform in 0..Jitter; packets keep their order
	Loss      float64       // share of packets dropped at random, 0..1
	RateBytes float64       // bytes per second; 0: no limit
	Queue     time.Duration // longest wait for the rate limit; 0: DefaultQueue; packets beyond it are dropped

	CutAB bool // drops all packets from the link's first host to its second, packets in flight included
	CutBA bool
}

// DefaultQueue is typical of a home router: bloated, but finite.
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

// Counts counts the packets of one direction by their fate.
type Counts struct {
	Packets, Bytes             int64 // delivered
	Cut, Lost, Overflowed      int64 // packets dropped: by a cut, at random, by a full queue
	LongestWait, LongestBehind time.Duration
}
