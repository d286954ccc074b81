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
	tryTimeout     = 3 * time.Second  // for each repair step that talks to the broker
	restartTimeout = 10 * time.Second // for the port to become free
)

// heal replaces a broken stream by an empty one. If that fails, the store is broken: then heal restarts the broker on
// its port with an empty store. reason is the problem that was found. The caller holds healing.
func (s *Server) heal(ctx context.Context, run string, subjects subjects, reason error) error {
	if s.shut() {
		return errors.New("the message bus is shut down")
	}
	s.logger.Warn("the message bus's stream does not work: creating it again", "run", run, "reason", reason)
	if err := s.replace(ctx, run, subjects); err == nil || ctx.Err() != nil || s.cluster != nil {
		if err == nil {
			s.reconnect()
		}
		return err
	} else {
		s.logger.Warn("the message bus's store does not work: restarting its broker with an empty store", "run", run, "reason", err)
	}
	if err := s.restart(ctx); err != nil {
		return fmt.Errorf("start the message bus again: %w", err)
	}
	return s.create(ctx, run, subjects)
}

// reconnect disconnects all workers, which reconnect at once. Because the stream is empty, they offer their last
// batches again.
func (s *Server) reconnect() {
	if s.gate == nil {
		return
	}
	broker := s.current()
	for _, id := range s.gate.all() {
		_ = broker.DisconnectClientByID(id) // fails if the connection is gone
	}
}

// replace deletes the stream and creates it again. If deleting a broken stream fails, creating it fails too.
func (s *Server) replace(ctx context.Context, run string, subjects subjects) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	deleted := deleteStream(ctx, s.js, run)
	if err := s.create(ctx, run, subjects); err != nil {
		return errors.Join(err, deleted)
	}
	return nil
}

// create creates or opens the run's stream, and tests it.
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
	// The broker chooses the stream's folder. Watch it only if it can be found.
	found, err := filepath.Glob(filepath.Join(s.options.StoreDir, "jetstream", "*", "streams", subjects.stream, "msgs"))
	if err != nil || len(found) != 1 {
		return nil
	}
	s.mu.Lock()
	s.folders[run] = found[0]
	s.mu.Unlock()
	return nil
}

// try writes to the stream, reads the message back and deletes it.
func (s *Server) try(ctx context.Context, subjects subjects) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, subjects.stream)
	if err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subjects.probe())); err != nil { // of an interrupted try
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

// restart replaces the broker by one with an empty store, on the same port and with the same token. Clients reconnect
// by themselves.
func (s *Server) restart(ctx context.Context) error {
	broker := s.current()
	broker.Shutdown()
	broker.WaitForShutdown()
	s.gate.reset()
	if err := discard(s.options.StoreDir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	if err := retry(ctx, func() (bool, error) { return true, s.launch() }); err != nil {
		return err
	}
	return retry(ctx, func() (bool, error) { return true, s.conn.FlushWithContext(ctx) }) // wait until the server's own connection is back
}

// damagedSuffix marks a store that is being deleted.
const damagedSuffix = ".damaged"

// discard renames a store's folder and deletes it. The store is only a cache.
func discard(dir string) error {
	away := dir + damagedSuffix
	if err := remove(away); err != nil {
		return fmt.Errorf("drop a damaged store: %w", err)
	}
	if err := os.Rename(dir, away); err != nil && !errors.Is(err, os.ErrNotExist) {
		away = filepath.Join(dir, "jetstream") // a mount point can't be renamed
	}
	if err := remove(away); err != nil {
		return fmt.Errorf("drop a damaged store: %w", err)
	}
	return nil
}

// remove deletes a folder, even if its permissions forbid that.
func remove(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) // before its content is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}
