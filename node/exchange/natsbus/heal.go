package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	tryTimeout     = 3 * time.Second  // of one repair's step that talks to the broker
	restartTimeout = 10 * time.Second // for the port to be free again
)

// heal makes a stream that doesn't work anew, empty; where that doesn't help it is the store that is broken, and the
// broker is started again on its port with an empty one. reason is what was found. healing is held.
func (s *Server) heal(ctx context.Context, run string, subjects subjects, reason error) error {
	if s.shut() {
		return errors.New("the message bus is shut down")
	}
	s.logger.Warn("the message bus's stream does not work and is created again", "run", run, "reason", reason)
	if err := s.replace(ctx, run, subjects); err == nil || ctx.Err() != nil || s.cluster != nil {
		if err == nil {
			s.reconnect()
		}
		return err
	} else {
		s.logger.Warn("the message bus's store doesn't work: its broker is started again with an empty one", "run", run, "reason", err)
	}
	if err := s.restart(ctx); err != nil {
		return fmt.Errorf("start the message bus again: %w", err)
	}
	return s.create(ctx, run, subjects)
}

// reconnect ends the connections of all workers, which come back at once: the stream is empty, and they offer again
// what they shared last.
func (s *Server) reconnect() {
	if s.gate == nil {
		return
	}
	broker := s.current()
	for _, id := range s.gate.all() {
		_ = broker.DisconnectClientByID(id) // fails for one that is gone
	}
}

// replace deletes the stream and makes it anew. A broken one may refuse to be deleted: then it can't be made either.
func (s *Server) replace(ctx context.Context, run string, subjects subjects) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	deleted := deleteStream(ctx, s.js, run)
	if err := s.create(ctx, run, subjects); err != nil {
		return errors.Join(err, deleted)
	}
	return nil
}

// create makes the run's stream, or takes the one that is there, and tries it.
func (s *Server) create(ctx context.Context, run string, subjects subjects) error {
	if err := s.createStream(ctx, run); err != nil {
		return err
	}
	if err := s.try(ctx, subjects); err != nil {
		return fmt.Errorf("try the stream of run %s: %w", run, err)
	}
	if s.cluster != nil {
		return nil
	}
	// Where the broker keeps it is its own affair; only what is found is watched.
	found, err := filepath.Glob(filepath.Join(s.options.StoreDir, "jetstream", "*", "streams", subjects.stream, "msgs"))
	if err != nil || len(found) != 1 {
		return nil
	}
	s.mu.Lock()
	s.folders[run] = found[0]
	s.mu.Unlock()
	return nil
}

// try writes to the stream, reads it back and drops it.
func (s *Server) try(ctx context.Context, subjects subjects) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, subjects.stream)
	if err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subjects.probe())); err != nil { // of one that was cut short
		return err
	}
	written := []byte(strconv.FormatInt(time.Now().UnixNano(), 10))
	stored, err := s.js.Publish(ctx, subjects.probe(), written)
	if err != nil {
		if full(err.Error()) {
			s.poke(err.Error())
			return nil
		}
		return err
	}
	read, err := stream.GetMsg(ctx, stored.Sequence)
	if err != nil {
		return err
	}
	if !bytes.Equal(read.Data, written) {
		return fmt.Errorf("wrote %q and read %q", written, read.Data)
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subjects.probe()))
}

// restart replaces the broker by one with an empty store on the same port, with the same token; its clients find it by
// themselves.
func (s *Server) restart(ctx context.Context) error {
	broker := s.current()
	broker.Shutdown()
	broker.WaitForShutdown()
	if err := discard(s.options.StoreDir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	if err := retry(ctx, func() (bool, error) { return true, s.launch() }); err != nil {
		return err
	}
	return retry(ctx, func() (bool, error) { return true, s.conn.FlushWithContext(ctx) }) // its own connection is back
}

// damagedSuffix is that of a store on its way out.
const damagedSuffix = ".damaged"

// discard moves a store's folder away and deletes it: what lies there is only a cache.
func discard(dir string) error {
	away := dir + damagedSuffix
	if err := remove(away); err != nil {
		return fmt.Errorf("drop a damaged store: %w", err)
	}
	if err := os.Rename(dir, away); err != nil && !errors.Is(err, os.ErrNotExist) {
		away = filepath.Join(dir, "jetstream") // a mount point can't be moved
	}
	if err := remove(away); err != nil {
		return fmt.Errorf("drop a damaged store: %w", err)
	}
	return nil
}

// remove deletes a folder, also one whose permissions are in the way.
func remove(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}
