package membership

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// barrierSim simulates a swarm of one node on the coordinator's host and workers' nodes, with a clock. It measures how
// long the own node waits at each barrier, and for which nodes.
type barrierSim struct {
	*lineup
	deadline, compute time.Duration
	waits             int           // failed waits, up to the deadline or nearly
	idle              time.Duration // time for which the own node waited for nodes that then shared nothing
	nodes             []*assignment
	of                string // the invitation of nodes that enter
	shared            map[*assignment]map[int]bool
}

func newBarrierSim(t require.TestingT, rounds int, deadline, compute time.Duration) *barrierSim {
	l, err := newLineup(protocol.Members("node_0"), rounds, true, 1)
	require.NoError(t, err)
	l.offers, l.now, l.trust = true, time.Unix(1_000_000, 0), newTrust(deadline)
	return &barrierSim{lineup: l, deadline: deadline, compute: compute, of: "invitation#1", shared: map[*assignment]map[int]bool{}}
}

// enter joins a new worker with one node, or a known worker again.
func (b *barrierSim) enter(worker string) *assignment {
	b.trust.invitations[worker] = b.of
	after := -1
	if s := b.find(worker + "_0"); s != nil {
		after = s.offered
	}
	s := b.join(worker+"_0", worker, b.first(after), 0, "")
	for _, known := range b.nodes {
		if known == s {
			return s
		}
	}
	b.nodes = append(b.nodes, s)
	return s
}

// owed returns the nodes for which the own node waits at the barrier of its round, based on what they shared, not on
// the lineup's view.
func (b *barrierSim) owed() (list []*assignment) {
	for _, s := range b.nodes {
		if s.gone == "" && !s.Absent && s.From <= b.newest && !b.shared[s][b.newest] {
			list = append(list, s)
		}
	}
	return list
}

// share records that the node's rollouts of a round have arrived.
func (b *barrierSim) share(s *assignment, round int) {
	if b.shared[s] == nil {
		b.shared[s] = map[int]bool{}
	}
	b.shared[s][round] = true
	b.lineup.share(s, round)
}

// round simulates one round of the own node: it computes, shares, waits for all present members, and continues. At the
// barrier it calls act for each node that owes a batch. act shares or doesn't, and returns how long from then on it
// took.
func (b *barrierSim) round(act func(s *assignment, left time.Duration) time.Duration) {
	b.now = b.now.Add(b.compute)
	b.awaits(b.newest)
	began, vain := b.now, false
	for end := b.now.Add(b.deadline); b.now.Before(end); {
		owed := b.owed()
		if len(owed) == 0 {
			break
		}
		s := owed[0]
		b.now = b.now.Add(max(time.Second, act(s, end.Sub(b.now))))
		if b.now.After(end) {
			b.now = end
		}
	}
	if waited := b.now.Sub(began); waited > briefWait {
		vain = true
	}
	b.idle += b.now.Sub(began)
	if vain {
		b.waits++
	}
	b.progress(b.find("node_0"), b.newest+1, event.StateGenerating)
}

// The barrier never waits for a node that joins, beats, never shares and joins again.
func TestNobodyWaitsForWhoNeverShares(t *testing.T) {
	const rounds = 200
	b := newBarrierSim(t, rounds+10, 5*time.Minute, time.Minute)
	for range rounds {
		s := b.enter("eve")
		b.progress(s, s.From, event.StateGenerating)
		b.round(func(_ *assignment, left time.Duration) time.Duration { return left })
	}
	require.Zero(t, b.waits)
	require.Zero(t, b.idle)
}

// The failed waits of one invitation grow at most with the logarithm of the rounds, whatever its holders do and however
// many workers they create.
func TestWaitsInVainGrowWithTheLogarithmOfTheRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rounds := rapid.SampledFrom([]int{30, 100, 300}).Draw(t, "rounds")
		b := newBarrierSim(t, rounds+10, 5*time.Minute, time.Minute)
		workers := rapid.SampledFrom([]int{1, 3, 6}).Draw(t, "workers")
		for range rounds {
			for n := range workers {
				worker := fmt.Sprintf("w%d", n)
				s := b.find(worker + "_0")
				switch rapid.SampledFrom([]string{"share", "share", "share", "skip", "join", "leave", "silent", "heard", "load", "claim", "nothing"}).Draw(t, "act") {
				case "join":
					b.enter(worker)
				case "share":
					if s != nil && s.gone == "" {
						b.share(s, min(max(s.offered+1, s.From), b.newest+2))
					}
				case "skip":
					if s != nil && s.gone == "" && b.newest+1 >= s.From {
						b.share(s, b.newest+rapid.IntRange(1, 2).Draw(t, "over"))
					}
				case "leave":
					if s != nil {
						b.leave(s, "", "left")
					}
				case "silent", "heard":
					if s != nil {
						b.silence([]*assignment{s}, rapid.Bool().Draw(t, "silent"))
					}
				case "load":
					if s != nil {
						b.pause(s, event.StateLoading)
					}
				case "claim":
					if s != nil {
						b.progress(s, b.newest+rapid.IntRange(-3, 50).Draw(t, "ahead"), event.StateGenerating)
					}
				}
			}
			b.round(func(s *assignment, left time.Duration) time.Duration {
				switch rapid.SampledFrom([]string{
					"stall", "leave late", "load late", "silent late", "share late", "leave soon", "join late", "resume late",
				}).Draw(t, "at the barrier") {
				case "leave late":
					defer b.leave(s, "", "left")
					b.now = b.now.Add(left - time.Second)
				case "load late":
					b.now = b.now.Add(left - time.Second)
					b.pause(s, event.StateLoading)
				case "silent late":
					b.now = b.now.Add(left - time.Second)
					b.silence([]*assignment{s}, true)
				case "join late":
					b.now = b.now.Add(left - time.Second)
					b.enter(s.worker)
				case "resume late":
					b.now = b.now.Add(left - time.Second)
					b.join(s.Node, s.worker, s.From, s.round, "")
				case "share late":
					b.share(s, b.newest)
				case "leave soon":
					b.leave(s, "", "left")
				default:
					return left
				}
				return 0
			})
		}
		if most := 2 * (2 + int(math.Log(float64(rounds))/math.Log(vainFactor))); b.waits > most {
			t.Fatalf("%d waits in vain in %d rounds, more than %d", b.waits, rounds, most)
		}
	})
}

// Attackers with one invitation act at the worst moments: stallers, leavers, silent nodes, liars and rejoiners. They
// delay a run of the paper's length by less than 2%.
func TestSybilsLiarsAndSilentOnesDelayNobodyMuch(t *testing.T) {
	const rounds = 2000
	run := func(hostile bool) (b *barrierSim, honest *assignment, away int) {
		b = newBarrierSim(t, rounds+10, 5*time.Minute, time.Minute)
		b.of = "friends#1"
		honest = b.enter("anna")
		b.of = "leaked#2"
		kinds := []string{"staller", "leaver", "silent", "liar", "rejoiner"}
		for n := range 20 {
			if hostile {
				b.enter(fmt.Sprintf("%s%d", kinds[n%len(kinds)], n/len(kinds)))
			}
		}
		for range rounds {
			b.share(honest, max(honest.From, b.newest))
			for _, s := range b.nodes[1:] {
				if s.silent {
					b.silence([]*assignment{s}, false)
				}
				switch {
				case s.gone != "", s.worker[0] == 'r' && s.Absent && s.streak > 0:
					b.enter(s.worker)
				case s.worker[:2] == "li":
					b.progress(s, b.newest+1, event.StateGenerating)
				}
				if s.Absent { // as honest as necessary
					b.share(s, min(max(s.offered+1, s.From, b.newest), b.newest+2))
				}
			}
			b.round(func(s *assignment, left time.Duration) time.Duration {
				switch s.worker[:2] {
				case "le":
					b.now = b.now.Add(left - time.Second)
					b.leave(s, "", "left")
				case "si":
					b.now = b.now.Add(min(left, SilentAfter))
					b.silence([]*assignment{s}, true)
				default:
					return left
				}
				return 0
			})
			if honest.Absent {
				away++
			}
		}
		return b, honest, away
	}
	calm, _, _ := run(false)
	require.Zero(t, calm.idle)
	b, _, away := run(true)
	share := b.idle.Seconds() / (rounds * b.compute).Seconds()
	t.Logf("%d rounds: %d long waits in vain, %s waited in all, %.2f %% of a calm run; the honest worker was absent in %d rounds",
		rounds, b.waits, b.idle, 100*share, away)
	require.Positive(t, b.waits)
	require.Less(t, share, 0.02)
	require.LessOrEqual(t, away, 3)
}

// A node that joins again shortly before the others' deadline still causes a failed wait.
func TestJoiningAgainPaysForTheWait(t *testing.T) {
	const rounds = 300
	b := newBarrierSim(t, rounds+10, 5*time.Minute, time.Minute)
	s := b.enter("eve")
	for range rounds {
		if s.Absent {
			b.share(s, min(max(s.offered+1, s.From, b.newest), b.newest+2))
		}
		b.round(func(s *assignment, left time.Duration) time.Duration {
			b.now = b.now.Add(left - time.Second)
			b.join(s.Node, s.worker, s.From, s.round, "")
			return 0
		})
	}
	require.LessOrEqual(t, b.waits, 2*(2+int(math.Log(rounds)/math.Log(vainFactor))))
}

// A node that shares every round except the one that the others wait for causes failed waits.
func TestSharingTheNextRoundIsNotSharingThisOne(t *testing.T) {
	const rounds = 300
	b := newBarrierSim(t, rounds+10, 5*time.Minute, time.Minute)
	s := b.enter("eve")
	for range rounds {
		if s.Absent {
			b.share(s, min(max(s.offered+1, s.From, b.newest), b.newest+2))
		} else {
			b.share(s, b.newest+1)
			b.share(s, b.newest+2)
		}
		b.round(func(_ *assignment, left time.Duration) time.Duration { return left })
	}
	require.LessOrEqual(t, b.waits, 2*(2+int(math.Log(rounds)/math.Log(vainFactor))))
	require.LessOrEqual(t, len(s.gaps), 3)
}
