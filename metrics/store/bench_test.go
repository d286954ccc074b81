package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// swarmRound returns the events of one node's round in a swarm of that many nodes: its states, leases, memory and the
// round itself, with four tasks and every peer.
func swarmRound(run string, nodes, node, round int) []event.Event {
	at := 1000 + float64(round)
	var told []event.Event
	add := func(e event.Event) {
		at += 0.01
		e.Time, e.Run, e.Node = at, run, fmt.Sprint("node_", node)
		told = append(told, e)
	}
	for _, s := range []event.State{event.StateWaiting, event.StateGenerating, event.StateScoring, event.StateSharing, event.StateBarrier,
		event.StateWaiting, event.StateUpdating} {
		add(event.Event{Type: event.TypeState, State: s, RoundIndex: round})
		if s == event.StateWaiting {
			add(event.Event{Type: event.TypeLease, Lease: &event.Lease{ID: 1}})
			add(event.Event{Type: event.TypeRelease, Lease: &event.Lease{ID: 1}})
		}
	}
	add(event.Event{Type: event.TypeMemory, Memory: &event.Memory{RSSBytes: 1e9, DeviceBytes: 2e9, ResidentBytes: 1e9, BudgetBytes: 8e9}})
	add(fullRound(nodes, round))
	return told
}

func fullRound(nodes, round int) event.Event {
	r := &event.Round{Round: round, Reward: 0.25, RewardStd: 0.1, TrainingReward: 0.5, Completions: 32, MeanLength: 80, Loss: 0.01, Steps: 1,
		StepTime: 9, GenerateTime: 6, UpdateTime: 2}
	for i := range 4 {
		r.Tasks = append(r.Tasks, event.TaskReward{Task: fmt.Sprint("task_", i), Completions: 8, RewardSum: 2})
	}
	for i := range nodes - 1 {
		r.Peers = append(r.Peers, event.Peer{Node: fmt.Sprint("node_", i), Available: 4, Used: 1})
	}
	return event.Event{Type: event.TypeRound, Round: r}
}

// roundsOnly returns the most expensive stream of events: only rounds.
func roundsOnly(run string, nodes, node, round int) []event.Event {
	e := fullRound(nodes, round)
	e.Time, e.Run, e.Node = 1000+float64(round), run, fmt.Sprint("node_", node)
	return []event.Event{e}
}

// BenchmarkRecord measures the writer's rate from Record to the end of the last commit, in events/s. "ratio" compares
// its time with a baseline that writes the same events to the same tables. The baseline uses plain prepared statements
// in transactions of the same size, and neither looks up rows nor waits.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name   string
		nodes  int
		stream func(run string, nodes, node, round int) []event.Event
	}{{"swarm_of_8", 8, swarmRound}, {"swarm_of_32", 32, swarmRound}, {"rounds_of_8", 8, roundsOnly}} {
		b.Run(c.name, func(b *testing.B) {
			events := 0
			var ours, plain time.Duration
			for b.Loop() {
				batch := streamed(c.nodes, c.nodes, 8000/c.nodes, c.stream)
				events += len(batch)
				ours += timeRecord(b, batch, 1)
				plain += timePlain(b, batch)
			}
			b.ReportMetric(float64(events)/ours.Seconds(), "events/s")
			b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
		})
	}
}

// BenchmarkBurst measures a thousand nodes that report two rounds at once, each from its own goroutine.
func BenchmarkBurst(b *testing.B) {
	events := 0
	var ours, plain time.Duration
	for b.Loop() {
		batch := streamed(1000, 8, 2, swarmRound)
		events += len(batch)
		ours += timeRecord(b, batch, 1000)
		plain += timePlain(b, batch)
	}
	b.ReportMetric(float64(events)/ours.Seconds(), "events/s")
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
}

// streamed returns the events of some rounds of a swarm. Each node has peers-1 peers.
func streamed(nodes, peers, rounds int, stream func(string, int, int, int) []event.Event) (events []event.Event) {
	for round := range rounds {
		for node := range nodes {
			events = append(events, stream(testRun, peers, node, round)...)
		}
	}
	return events
}

// timeRecord records events from several goroutines into a new database.
func timeRecord(b *testing.B, events []event.Event, senders int) time.Duration {
	s := startedStore(b, Options{})
	ctx := context.Background()
	started := time.Now()
	var wg sync.WaitGroup
	part := (len(events) + senders - 1) / senders
	for i := 0; i < len(events); i += part {
		wg.Go(func() {
			for _, e := range events[i:min(i+part, len(events))] {
				if err := s.Record(ctx, e); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(b, s.Flush(ctx))
	took := time.Since(started)
	var rounds int
	require.NoError(b, s.db.QueryRow("SELECT count(*) FROM rounds").Scan(&rounds))
	want := 0
	for _, e := range events {
		if e.Type == event.TypeRound {
			want++
		}
	}
	require.Equal(b, want, rounds)
	require.NoError(b, s.Close())
	return took
}

// timePlain writes the same events with one statement per row and batches of a thousand.
func timePlain(b *testing.B, events []event.Event) time.Duration {
	s := startedStore(b, Options{})
	for _, e := range events {
		_, err := s.db.Exec(insertNodeSQL, testRun, e.Node, "")
		require.NoError(b, err)
	}
	prepare := func(q string) *sql.Stmt {
		st, err := s.db.Prepare(q)
		require.NoError(b, err)
		return st
	}
	state := prepare("UPDATE nodes SET state = ?, state_time = ?, last_event = ?2, working_round = ? WHERE run = ? AND node = ?")
	memory := prepare("UPDATE nodes SET rss_bytes = ?, device_bytes = ?, memory_time = ? WHERE run = ? AND node = ?")
	slot := prepare("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?, ?, ?)")
	round := prepare(insertRoundSQL)
	sum := prepare("UPDATE nodes SET cumulative_reward = cumulative_reward + ?, rounds_done = rounds_done + 1 WHERE run = ? AND node = ?")
	task := prepare("INSERT INTO task_rewards VALUES (?, ?, ?, ?, ?, ?)")
	peer := prepare("INSERT INTO peers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	started := time.Now()
	for len(events) > 0 {
		tx, err := s.db.Begin()
		require.NoError(b, err)
		exec := func(st *sql.Stmt, args ...any) {
			if _, err := tx.Stmt(st).Exec(args...); err != nil {
				b.Fatal(err)
			}
		}
		n := min(1000, len(events))
		for _, e := range events[:n] {
			switch e.Type {
			case event.TypeState:
				exec(state, string(e.State), e.Time, e.RoundIndex, e.Run, e.Node)
			case event.TypeMemory:
				exec(memory, e.Memory.RSSBytes, e.Memory.DeviceBytes, e.Time, e.Run, e.Node)
				exec(slot, e.Run, e.Node, int(e.Time)/10, e.Memory.RSSBytes, 0, e.Memory.DeviceBytes, 0)
			case event.TypeRound:
				exec(round, roundValues(e)...)
				exec(sum, e.Round.Reward, e.Run, e.Node)
				for _, x := range e.Round.Tasks {
					exec(task, e.Run, e.Round.Round, e.Node, x.Task, x.Completions, x.RewardSum)
				}
				for _, x := range e.Round.Peers {
					exec(peer, e.Run, e.Round.Round, e.Node, x.Node, x.Available, x.Rejected, x.Filtered, x.Used, x.Late, "")
				}
			}
		}
		require.NoError(b, tx.Commit())
		events = events[n:]
	}
	took := time.Since(started)
	require.NoError(b, s.Close())
	return took
}
