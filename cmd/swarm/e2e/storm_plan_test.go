package e2e

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is one fault in a storm. The same seed draws the same faults. Only the moment at which they happen differs.
type fault struct {
	number   int
	kind     *faultKind
	node     int           // index of the affected node
	delay    time.Duration // from its turn on
	hold     time.Duration // how long a reversible fault lasts
	together bool          // comes right after the previous fault, not rounds later
	seed     uint64        // selects what is damaged, and how
}

func (f fault) String() string {
	who := ""
	if !f.kind.all {
		who = fmt.Sprintf(" of node_%d", f.node)
	}
	return fmt.Sprintf("%3d %s%s", f.number, f.kind.name, who)
}

// random returns the fault's own random source.
func (f fault) random() *rand.Rand { return rand.New(rand.NewPCG(f.seed, 1)) }

// faultKind is a kind of fault.
type faultKind struct {
	name   string
	weight int
	all    bool // affects more than one node
	apply  func(*storm, fault) error
	usable func(*storm) error // returns why the fault is impossible here; nil: possible everywhere
}

// faultKinds returns all kinds of faults. The weights keep a storm of hundreds of faults within minutes: a
// coordinator's death costs four loads of torch.
func faultKinds() []*faultKind {
	return []*faultKind{
		{name: "kill engine", weight: 22, apply: killEngine},
		{name: "kill engine host", weight: 6, all: true, apply: killEngineHost},
		{name: "stop engine host", weight: 4, apply: stopEngineHost},
		{name: "kill node", weight: 14, apply: killNode},
		{name: "kill coordinator", weight: 4, all: true, apply: killCoordinator},
		{name: "kill everything", weight: 4, all: true, apply: killEverything},
		{name: "terminate coordinator", weight: 4, all: true, apply: terminateCoordinator},
		{name: "stop engine", weight: 5, apply: stopEngine},
		{name: "stop node", weight: 5, apply: stopNode},
		{name: "stop coordinator", weight: 3, all: true, apply: stopCoordinator},
		{name: "close engine's stdin", weight: 4, apply: closePipe(engineProcess, 0), usable: canClosePipes},
		{name: "close engine's stdout", weight: 4, apply: closePipe(engineProcess, 1), usable: canClosePipes},
		{name: "close node's stdin", weight: 4, apply: closePipe(nodeProcess, 0), usable: canClosePipes},
		{name: "close node's stdout", weight: 4, apply: closePipe(nodeProcess, 1), usable: canClosePipes},
		{name: "full disk", weight: 3, all: true, apply: fillDisk, usable: ownDisk},
		{name: "damage newest checkpoint", weight: 7, apply: damageCheckpoint},
		{name: "damage journal's tail", weight: 7, apply: damageJournal},
		{name: "damage both checkpoints", weight: 2, apply: damageBothCheckpoints},
		{name: "damage checkpoint and journal", weight: 2, apply: damageCheckpointAndJournal},
		{name: "wipe exchange while down", weight: 2, all: true, apply: wipeExchangeDown},
		{name: "wipe exchange at work", weight: 3, all: true, apply: wipeExchangeAtWork},
		{name: "limit engine's memory", weight: 6, apply: limitMemory},
	}
}

// togetherShare is the share of faults that overlap with the previous one.
const togetherShare = 0.25

// drawFaults draws count faults for a swarm of nodes. Each kind comes once before the weights apply.
func drawFaults(seed uint64, count, nodes int, kinds []*faultKind) []fault {
	random := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	deck := random.Perm(len(kinds))
	faults := make([]fault, count)
	for i := range faults {
		faults[i] = fault{
			number: i + 1, node: random.IntN(nodes), seed: random.Uint64(), together: i > 0 && random.Float64() < togetherShare,
			delay: time.Duration(random.IntN(400)) * time.Millisecond, hold: time.Duration(1000+random.IntN(2000)) * time.Millisecond,
		}
		at := random.IntN(total)
		if i < len(deck) {
			faults[i].kind = kinds[deck[i]]
			continue
		}
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				faults[i].kind = k
				break
			}
		}
	}
	return faults
}
