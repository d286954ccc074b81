package plan

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
)

// Nodes and jobs of swarm run share GPUs through the jobs' queue. A plan leaves out GPU memory that jobs have
// claimed. A run claims its planned memory for as long as it runs.

// withoutJobs subtracts GPU memory that jobs have claimed but do not use yet, and notes the claimants. If the queue
// cannot be read, it subtracts nothing.
func withoutJobs(h Host, gpus []fit.GPU) (left []fit.GPU, notes []string) {
	q, err := queue.Open(h.Home.Queue())
	if err != nil {
		return gpus, nil
	}
	entries, err := q.List()
	if err != nil || len(entries) == 0 {
		return gpus, nil
	}
	var devices []queue.Device
	for _, d := range gpus {
		devices = append(devices, queue.Device{GPU: d.UUID, Index: d.Index, Name: d.Name, Total: d.MemoryTotal, Free: d.MemoryFree})
	}
	free, claimants := queue.Unclaimed(entries, devices)
	left = slices.Clone(gpus)
	for i, d := range gpus {
		if n := free[d.UUID]; n < d.MemoryFree {
			left[i].MemoryFree = n
			notes = append(notes, fmt.Sprintf("GPU %d: %s of the free %s are reserved by %s", d.Index, units.Bytes(d.MemoryFree-n), units.Bytes(d.MemoryFree),
				strings.Join(claimants[d.UUID], ", ")))
		}
	}
	return left, notes
}

// Claims are a run's claims on the host's GPUs. The jobs of swarm run see them.
type Claims struct {
	log   *slog.Logger
	bytes int64 // per GPU, of all nodes planned there
	cards []card

	mu      sync.Mutex
	engines map[string]int // pids, by node
}

// card is a claimed GPU.
type card struct {
	*queue.Ticket
	nodes []string // planned there, and not given up
}

// Claim claims a plan's GPU memory. It only logs a failure to claim: the nodes run without the claim.
func Claim(h Host, run string, plan fit.Plan, gpus []gpu.GPU) *Claims {
	c := &Claims{log: h.Logger, bytes: plan.Expected, engines: map[string]int{}}
	used := map[int][]string{}
	for _, at := range plan.Placement {
		for _, index := range at.Cards() {
			used[index] = append(used[index], at.Node)
		}
	}
	if len(used) == 0 {
		return c
	}
	q, err := queue.Open(h.Home.Queue())
	if err != nil {
		h.Logger.Warn("jobs of swarm run cannot see this run", "error", err)
		return c
	}
	q.Log = h.Logger
	for _, d := range gpus {
		if nodes := used[d.Index]; len(nodes) > 0 && d.UUID != "" {
			c.claim(q, run, d, nodes)
		}
	}
	return c
}

func (c *Claims) claim(q *queue.Queue, run string, d gpu.GPU, nodes []string) {
	t, err := q.Enter(run, queue.Need{GPU: d.UUID, Bytes: min(c.bytes, d.MemoryTotal)})
	if err == nil {
		var verdict queue.Verdict
		_, verdict, err = t.Try([]queue.Device{{GPU: d.UUID, Index: d.Index, Name: d.Name, Total: d.MemoryTotal, Free: d.MemoryFree}})
		if err == nil && verdict.Granted {
			c.cards = append(c.cards, card{t, nodes})
			return
		}
		if err == nil {
			err = fmt.Errorf("the queue %s", verdict)
		}
		_ = t.Leave() // it ends with this process anyway
	}
	c.log.Warn("jobs of swarm run cannot see this run's memory use", "gpu", d.Index, "error", err)
}

// Loaded records the engine process of a node on this host, whose memory is part of the claim. It does nothing on
// nil. It may wait for the queue's lock.
func (c *Claims) Loaded(node string, pid int) {
	if c != nil && pid > 0 {
		c.adjust(func() { c.engines[node] = pid })
	}
}

// GivenUp ends the claim on a GPU if all nodes planned there were given up. Until then the others share the memory of
// such a node. It does nothing on nil. It may wait for the queue's lock.
func (c *Claims) GivenUp(node string) {
	if c != nil {
		c.adjust(func() {
			delete(c.engines, node)
			for i := range c.cards {
				c.cards[i].nodes = slices.DeleteFunc(c.cards[i].nodes, func(on string) bool { return on == node })
			}
		})
	}
}

func (c *Claims) adjust(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	pids := slices.Collect(maps.Values(c.engines))
	for _, on := range c.cards {
		bytes := c.bytes
		if len(on.nodes) == 0 {
			bytes = 0
		}
		if err := on.Adjust(bytes, pids); err != nil {
			c.log.Debug("queue", "error", err)
		}
	}
}

// Release releases the claims. It does nothing on nil or when called again.
func (c *Claims) Release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, on := range c.cards {
		if err := on.Leave(); err != nil {
			c.log.Debug("queue", "error", err)
		}
	}
	c.cards = nil
}
