package natsbus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	tendEvery  = 2 * time.Second  // between two looks at the stream
	lastRepair = 30 * time.Second // the longest between two repairs of a store that can't be repaired, a disk that is full
	silences   = 3                // looks in a row without an answer in time: fewer are a busy machine, or a process that was stopped
)

// Tend keeps a run's rollouts available until ctx ends: it serves again out of the nodes' journals what the stream has
// not, or no longer, and makes the stream anew, and if need be the whole store, when it has vanished or doesn't work.
// Nodes ride over that: they go on asking. Whatever is wrong is logged. It returns an error only where the run's name
// is none.
func (s *Server) Tend(ctx context.Context, run string, nodes []string, find Find) error {
	subjects, err := newSubjects(run)
	if err != nil {
		return fmt.Errorf("tend: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wants := make(chan string, wantQueue)
	asked, err := s.conn.Subscribe(subjects.anyWant(), func(m *nats.Msg) {
		select {
		case wants <- m.Subject:
		default: // the node asks again
		}
	})
	if err != nil {
		return fmt.Errorf("tend run %s: %w", run, err)
	}
	defer func() { _ = asked.Unsubscribe() }()
	reported, err := s.conn.Subscribe(subjects.trouble(), func(m *nats.Msg) { s.poke(string(m.Data)) })
	if err != nil {
		return fmt.Errorf("tend run %s: %w", run, err)
	}
	defer func() { _ = reported.Unsubscribe() }()

	var serving sync.WaitGroup
	serving.Go(func() { newArchive(s, run, subjects, nodes, find).serve(ctx, wants) })
	s.watch(ctx, run, subjects)
	cancel()
	serving.Wait()
	return nil
}

// poke requests a check of the store. It does not block.
func (s *Server) poke(reason string) {
	select {
	case s.pokes <- reason:
	default: // one is on its way
	}
}

// watch looks at the stream every tendEvery, and closer when somebody met a trouble, and repairs what is broken.
func (s *Server) watch(ctx context.Context, run string, subjects subjects) {
	look := time.NewTicker(tendEvery)
	defer look.Stop()
	var repaired, examined time.Time
	var backoff time.Duration // after a repair that failed
	silent := 0
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if silent > 0 {
				err = s.examine(ctx, run, subjects, "")
			} else {
				err = s.glance(ctx, run, subjects)
			}
		case reason := <-s.pokes:
			if time.Since(examined) < complainEvery/2 && !damaged(reason) {
				continue // who still has the trouble complains again
			}
			err = s.examine(ctx, run, subjects, reason)
			examined = time.Now()
		}
		if ctx.Err() != nil || s.shut() {
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			silent = 0
		} else if silent++; silent < silences {
			continue
		}
		if err == nil || time.Since(repaired) < backoff {
			continue // what is still broken the next look finds again
		}
		s.healing.Lock()
		err = s.heal(ctx, run, subjects, err)
		s.healing.Unlock()
		repaired, silent = time.Now(), 0
		if err == nil {
			backoff = 0
		} else if ctx.Err() == nil {
			backoff = min(2*max(backoff, tendEvery/2), lastRepair)
			s.logger.Error("the message bus's store can't be repaired yet", "run", run, "error", err)
		}
	}
}

// glance is the cheap check: the stream and its folder exist. JetStream itself continues to write into deleted files.
func (s *Server) glance(ctx context.Context, run string, subjects subjects) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := s.js.Stream(ctx, subjects.stream); err != nil {
		return err
	}
	s.mu.Lock()
	folder := s.folders[run]
	s.mu.Unlock()
	if folder == "" {
		return nil
	}
	_, err := os.Stat(folder)
	return err
}

// examine is the thorough look, after somebody met a trouble: it also writes and reads.
func (s *Server) examine(ctx context.Context, run string, subjects subjects, reason string) error {
	if damaged(reason) {
		return errors.New(strings.TrimPrefix(reason, unreadable))
	}
	if err := s.glance(ctx, run, subjects); err != nil {
		return err
	}
	if full(reason) {
		s.trim(ctx, run, subjects)
		return nil
	}
	return s.try(ctx, subjects)
}

// trim drops the older half of the rounds of a full stream. The journals keep them.
func (s *Server) trim(ctx context.Context, run string, subjects subjects) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	oldest, newest := -1, -1
	stream, err := s.js.Stream(ctx, subjects.stream)
	if err == nil {
		var info *jetstream.StreamInfo
		if info, err = stream.Info(ctx, jetstream.WithSubjectFilter(subjects.prefix+".rollouts.>")); err == nil {
			for _, round := range storedRounds(subjects, info) {
				if oldest < 0 || round < oldest {
					oldest = round
				}
				newest = max(newest, round)
			}
		}
	}
	if err == nil && newest > oldest {
		before := newest - (newest-oldest)/2
		s.logger.Warn("the message bus's stream is full: older rollouts are dropped, the journals have them", "run", run, "before", before)
		err = purge(ctx, s.js, run, before)
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the message bus's stream is full and can't be trimmed", "run", run, "error", err)
	}
}

func (s *Server) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
