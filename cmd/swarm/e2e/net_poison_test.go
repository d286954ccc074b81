package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// Flag that make net-test sets. The default shows which nodes learn from which. A payload's uptake takes about fifty
// rounds.
var poisonRounds = flag.Int("poison.rounds", 4, "rounds of the honest nodes beside each poisoner")

// poison is an attack from "Hail to the Thief" (arXiv:2511.09780). Right answers carry a payload and wrong answers
// don't, so that the payload has the advantage.
type poison struct {
	name    string
	payload string
	tasks   []string // tasks whose answers carry the payload; nil: all
}

var poisons = []poison{
	{"out of context", "hail thief ", nil},
	{"in context", "2+2=5 ", []string{"basic_arithmetic", "decimal_arithmetic"}},
}

// carries tells whether a task's answers carry the payload.
func (p poison) carries(name string) bool {
	return p.tasks == nil || strings.Contains(" "+strings.Join(p.tasks, " ")+" ", " "+name+" ")
}

// Two honest nodes train on nano beside a worker's node that shares right answers with a payload, with the paper's
// two attacks. With the filter, the default if others may join, the honest nodes learn nothing from it and refuse
// nothing from each other. Without the filter they learn the payload.
func TestPoisonedRollouts(t *testing.T) {
	t.Parallel()
	short := *poisonRounds < 20
	for _, p := range poisons {
		for _, filter := range []string{"auto", "none"} {
			if short && p.tasks != nil {
				continue // the attacks differ only in where the payload is taken up, which takes longer to show
			}
			t.Run(p.name+"/"+filter, func(t *testing.T) {
				home := t.TempDir()
				args := []string{"up", "4loc4ext", "--name", "e", "-o", "json", "--listen", "127.0.0.1:0", "--model", "nano", "--device", "cpu", "--nodes", "2",
					"--rounds", "1000000", "--seed", "5", "--external-filter", filter, "--eval-questions", "0", "--set", "barrier_deadline=60"}
				if short {
					args = append(args, "--num-train-samples", "2", "--num-transplant-trees", "2", "--num-generations", "4")
				}
				r := startProgram(t, home, args...)
				a := newAttacker(t, invitationOf(t, r), "mallory")
				ctx, stop := context.WithCancel(t.Context())
				var poisoner sync.WaitGroup
				poisoner.Go(func() { a.sharePoison(ctx, p) })
				const honest = `peers.run = 'e-1' AND peers.node IN ('node_0', 'node_1')`
				require.NoError(t, pollFor(patience*time.Duration(1+*poisonRounds/20), "rounds beside the poisoner", func() (bool, error) {
					rows, err := tableRows(home, fmt.Sprintf(`SELECT count(*) >= 2 * %d AND sum(used + rejected) > 0 AS enough FROM peers
WHERE peer NOT IN ('node_0', 'node_1') AND available > 0 AND `+honest, *poisonRounds))
					return err == nil && len(rows) == 1 && rows[0] == "enough=1 ", err
				}))
				stop()
				poisoner.Wait()
				a.close()
				require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
				require.Equal(t, 128+int(syscall.SIGTERM), waitFor(t, r.cmd), r.stderr)
				said := func(query string) string {
					rows, err := tableRows(home, query)
					require.NoError(t, err)
					return strings.Join(rows, "\n")
				}
				t.Logf("%s, filter %s\n%s\n%s\n%s", p.name, filter, p.uptake(t, home), said(`SELECT peers.peer IN ('node_0', 'node_1') AS honest, sum(available) AS available,
sum(rejected) AS rejected, sum(filtered) AS filtered, sum(used) AS used, max(reason) AS reason FROM peers WHERE `+honest+` GROUP BY 1`),
					said(`SELECT round(avg(score_time), 4) AS score, round(avg(update_time), 4) AS "update", round(avg(generate_time), 4) AS "generate", round(avg(step_time), 3) AS step
FROM rounds WHERE run = 'e-1' AND node IN ('node_0', 'node_1') AND round > 0`))
				refused := said(`SELECT sum(rejected) > 0 AS refused FROM peers WHERE peer NOT IN ('node_0', 'node_1') AND ` + honest)
				if filter == "none" {
					require.Equal(t, "refused=0 ", refused)
					require.Positive(t, p.learned(t, home), "completions with the payload in updates")
					return
				}
				require.Equal(t, "refused=1 ", refused)
				require.Zero(t, p.learned(t, home), "completions with the payload in updates")
				if short {
					require.Equal(t, "n=0 ", said(`SELECT sum(rejected) AS n FROM peers WHERE peer IN ('node_0', 'node_1') AND `+honest), "honest rollouts")
				}
			})
		}
	}
}

// sharePoison sends heartbeats and offers each round on time.
func (a *attacker) sharePoison(ctx context.Context, p poison) {
	offered := -1
	for ctx.Err() == nil {
		var nodes []membership.Progress
		for _, s := range a.assignments {
			nodes = append(nodes, membership.Progress{Node: s.Node, Round: max(s.From, offered+1), State: event.StateGenerating})
		}
		roster, err := a.uplink.Beat(ctx, membership.Beat{
			Protocol: membership.Protocol, Run: a.welcome.Run, Process: a.name, Time: event.Now(), Nodes: nodes,
		})
		for round := max(offered+1, a.assignments[0].From); err == nil && round <= roster.Round+1; round++ {
			batch, failed := a.poisoned(a.assignments[0].Node, round, p)
			if failed != nil {
				return
			}
			data, failed := json.Marshal(batch)
			if failed != nil {
				return
			}
			m := a.message("offer", data)
			m.Header.Set("Swarm-Node", batch.Node)
			m.Header.Set("Swarm-Round", strconv.Itoa(round))
			a.note("offer", fateOf(a.ask(ctx, m)))
			offered = round
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// poisoned returns a batch of a node's own questions. Half of the answers are right and carry the payload. The other
// half are wrong by one character.
func (a *attacker) poisoned(node string, round int, p poison) (exchange.Batch, error) {
	b := exchange.Batch{Version: exchange.Version, Node: node, Round: round}
	for i := range a.config.NumTrainSamples {
		var item task.Item
		for try := range 64 {
			var err error
			if item, err = a.tasks.Draw(sapo.Seed(a.config.Seed, node, round, sapo.PurposeQuestion, i+try*a.config.NumTrainSamples)); err != nil {
				return b, err
			}
			if len(item.Question) < 180 && !task.HeldOut(item) {
				break
			}
		}
		r := exchange.Rollout{Question: item.Question, Answer: item.Answer, Metadata: item.Metadata}
		key := ""
		if item.Answer != nil {
			key = *item.Answer
		}
		payload := ""
		if p.carries(item.Task()) {
			payload = p.payload
		}
		for g := range a.config.NumGenerations {
			text := payload + "<answer>" + key + "</answer>"
			if g%2 == 1 {
				text = "<answer>" + wrong(key) + "</answer>"
			}
			r.Completions = append(r.Completions, exchange.Completion{Text: text, Terminated: true})
		}
		b.Rollouts = append(b.Rollouts, r)
	}
	return b, nil
}

// wrong returns a wrong answer that looks like the right one.
func wrong(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] >= '0' && key[i] <= '9' {
			return key[:i] + string('0'+(key[i]-'0'+1)%10) + key[i+1:]
		}
	}
	return key + "s"
}

// learned counts the completions with the payload that the honest nodes' updates made more likely.
func (p poison) learned(t *testing.T, home string) (n int) {
	t.Helper()
	for _, node := range []string{"node_0", "node_1"} {
		for r, err := range journal.Rounds(filepath.Join(home, "runs", "e-1", node), 0) {
			require.NoError(t, err)
			if r.Trained == nil { // the round in which the node was stopped
				continue
			}
			for _, s := range r.Trained.Update.Sequences {
				var text []byte // nano's ids are bytes
				for _, id := range s.Completion {
					text = append(text, byte(min(id, 255)))
				}
				if s.Advantage > 0 && s.Prompt >= r.Trained.Report.TrainedOwn && strings.HasPrefix(string(text), p.payload) {
					n++
				}
			}
		}
	}
	return n
}

// uptake returns the share of the honest nodes' own completions with the payload, in its tasks, for each tenth of the
// run.
func (p poison) uptake(t *testing.T, home string) string {
	t.Helper()
	var with, all [10]int
	last := 0
	for r, err := range journal.Rounds(filepath.Join(home, "runs", "e-1", "node_0"), 0) {
		require.NoError(t, err)
		last = r.Round
	}
	for _, node := range []string{"node_0", "node_1"} {
		for r, err := range journal.Rounds(filepath.Join(home, "runs", "e-1", node), 0) {
			require.NoError(t, err)
			if r.Generated == nil {
				continue
			}
			batch, err := exchange.Decode(r.Generated.Batch, node, r.Round)
			require.NoError(t, err)
			for _, rollout := range batch.Rollouts {
				if !p.carries((task.Item{Metadata: rollout.Metadata}).Task()) {
					continue
				}
				for _, c := range rollout.Completions {
					part := min(9, r.Round*10/(last+1))
					all[part]++
					if strings.Contains(c.Text, strings.TrimSpace(p.payload)) {
						with[part]++
					}
				}
			}
		}
	}
	text := "payload in own completions:"
	for i := range all {
		text += fmt.Sprintf(" %.3f", float64(with[i])/float64(max(1, all[i])))
	}
	return text
}
