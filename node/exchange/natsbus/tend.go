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
	tendEvery  = 2 * time.Second  // between two checks of the stream
	lastRepair = 30 * time.Second // maximum time between repair attempts, for example while the disk is full
	silences   = 3                // consecutive timeouts before a repair; fewer may be a busy machine or a stopped process
)

// Tend keeps a run's rollouts available until ctx ends. It restores batches that the stream lacks from the nodes'
// journals. If the stream is missing or broken, it creates the stream again, and if necessary the whole store. Nodes
// retry meanwhile. Tend logs all problems. It returns an error if the run's name is invalid or a subscription fails.
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
	default: // a check is already pending
	}
}

// watch checks the stream every tendEvery, more thoroughly after a reported problem, and repairs it if necessary.
func (s *Server) watch(ctx context.Context, run string, subjects subjects) {
	look := time.NewTicker(tendEvery)
	defer look.Stop()
	var repaired, examined time.Time
	var backoff time.Duration // after a failed repair
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
				continue // nodes repeat their complaint if the problem lasts
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
			continue // the next check finds a remaining problem again
		}
		s.healing.Lock()
		err = s.heal(ctx, run, subjects, err)
		s.healing.Unlock()
		repaired, silent = time.Now(), 0
		if err == nil {
			backoff = 0
		} else if ctx.Err() == nil {
			backoff = min(2*max(backoff, tendEvery/2), lastRepair)
			s.logger.Error("the message bus's store cannot be repaired yet", "run", run, "error", err)
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

// examine is the thorough check after a reported problem. It also writes and reads.
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

// trim drops the older half of a full stream's rounds. The journals keep them.
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
		s.logger.Warn("the message bus's stream is full: older rollouts are deleted; the journals have them", "run", run, "before", before)
		err = purge(ctx, s.js, run, before)
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the message bus's stream is full and cannot be trimmed", "run", run, "error", err)
	}
}

func (s *Server) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
