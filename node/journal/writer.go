package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

// lockPatience is how long Open waits for a previous writer, one whose launcher died and that is about to notice.
const lockPatience = 5 * time.Second

// Journal appends to a node's journal. Its methods are called from one goroutine. After an error the record is not in
// the journal, and the next call may succeed. Once a sync has failed nobody knows what of the file is on the disk, and
// a second sync that succeeds proves nothing: the next call goes on in a new file, with the rounds that the last good
// sync did not cover.
type Journal struct {
	dir    string
	logger *slog.Logger
	folder *os.File // locked
	file   *os.File // of the last segment; nil before Resume
	first  int      // the round that it begins with
	next   int      // the first round of which nothing is in it
	size   int64    // of its whole records
	synced int64    // as much of it is on the disk
	torn   bool     // it may hold more than size
	failed bool     // a sync of it failed

	sync func(*os.File) error // (*os.File).Sync but in tests
}

// Open opens the journal of a folder, which exists, for appending: after Resume. It changes nothing. One process at a
// time has it open; another gets ErrInUse, after a few seconds.
func Open(dir string, logger *slog.Logger) (*Journal, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := lock(folder, lockPatience, logger); err != nil {
		folder.Close()
		return nil, fmt.Errorf("journal in %s: %w", dir, err)
	}
	return &Journal{dir: dir, logger: logger, folder: folder, sync: (*os.File).Sync}, nil
}

func lock(folder *os.File, patience time.Duration, logger *slog.Logger) error {
	err := files.LockWithin(folder, patience)
	if errors.Is(err, files.ErrLocked) {
		return fmt.Errorf("%w. Try: end the process that works in this folder", ErrInUse)
	}
	if err != nil {
		logger.Debug("journal not locked", "reason", err) // a file system without locks
	}
	return nil
}

// Resume lets the next record be of a round: it drops what is logged of that round and later ones, but that round's own
// Generated. What is damaged before it stays as it is; a new segment begins then. A damaged segment that is written to
// again, or whose name a new one takes, is set aside first, whole.
func (j *Journal) Resume(round int) error {
	list, err := segments(j.dir)
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0 && list[i].first > round; i-- { // the newest first: what is left is whole, should this be cut short
		j.logger.Info("journal segment dropped", "file", filepath.Base(list[i].path), "resume", round)
		if err := os.Remove(list[i].path); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		list = list[:i]
	}
	if err := j.folder.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if len(list) == 0 {
		return j.begin(round)
	}
	last := list[len(list)-1]
	last.until = int(^uint(0) >> 1)
	size, reached, err := last.keep(round)
	whole := size >= segmentHeader && reached >= round-1
	switch {
	case errors.Is(err, ErrVersion):
		return last.fail(err)
	case err != nil && !errors.Is(err, ErrDamaged):
		return fmt.Errorf("journal: %w", err)
	case !whole:
		if err != nil {
			j.logger.Warn("journal segment not used further", "file", filepath.Base(last.path), "reason", err)
		}
		if last.first == round {
			if err := j.setAside(last.path); err != nil {
				return err
			}
		}
		return j.begin(round)
	case last.damaged():
		j.logger.Warn("journal segment is damaged: what can be read of it is used", "file", filepath.Base(last.path))
		return j.restore(last, size, reached+1)
	}
	return j.appendTo(last, size, reached+1)
}

// keep looks for the part of a segment that is before a round, and that round's Generated: its size, and the last round
// that it reaches. An error that is ErrDamaged came where the part ends.
func (s segment) keep(round int) (size int64, reached int, err error) {
	reached = s.first - 1
	size, err = s.scan(func(r io.ReaderAt, f frame) (bool, error) {
		if f.round > round || f.round == round && f.kind != kindGenerated {
			return false, nil
		}
		if _, err := readPayload(r, f); err != nil {
			return false, err
		}
		reached = f.round
		return true, nil
	})
	if errors.Is(err, errTorn) {
		err = nil
	}
	return size, reached, err
}

// damaged tells whether a segment can't be read to its end, other than for a torn record there.
func (s segment) damaged() bool {
	_, err := s.scan(func(r io.ReaderAt, f frame) (bool, error) {
		_, err := readPayload(r, f)
		return true, err
	})
	return errors.Is(err, ErrDamaged)
}

// begin makes a new segment, in the place of an empty or torn one.
func (j *Journal) begin(round int) error {
	path := filepath.Join(j.dir, segmentName(round))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = file.Write(encodeSegmentHeader(round))
	if err := errors.Join(err, j.sync(file), j.folder.Sync()); err != nil {
		file.Close()
		os.Remove(path)
		return fmt.Errorf("journal: %w", err)
	}
	j.become(file, round, round, segmentHeader)
	return nil
}

// appendTo goes on in a segment, after its first size bytes, which hold nothing of round next.
func (j *Journal) appendTo(s segment, size int64, next int) error {
	file, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := errors.Join(file.Truncate(size), j.sync(file)); err != nil {
		file.Close()
		return fmt.Errorf("journal: %w", err)
	}
	j.become(file, s.first, next, size)
	return nil
}

func (j *Journal) become(file *os.File, first, next int, size int64) {
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.first, j.next, j.size, j.synced, j.torn, j.failed = file, first, next, size, size, false, false
}

// Generated logs what was generated, before it is shared.
func (j *Journal) Generated(round int, record Generated) error {
	return j.append(kindGenerated, round, record, false)
}

// Trained logs a training set; it is on disk when this returns, and all that was logged before.
func (j *Journal) Trained(round int, record Trained) error {
	return j.append(kindTrained, round, record, true)
}

// Done logs that a round was told. Of a round before the last segment's it logs nothing: its own segment has lost it
// and stays as it is. Who needs it tells of the round by making its update again.
func (j *Journal) Done(round int, record Done) error {
	if j.file != nil && round < j.first {
		return nil
	}
	return j.append(kindDone, round, record, false)
}

// Rotate begins a new segment with a round, of which nothing has been logged; what was logged before is on disk when it
// returns.
func (j *Journal) Rotate(round int) error {
	switch {
	case j.file == nil:
		return errors.New("journal: it has not been resumed")
	case round == j.first && j.next == round:
		return nil // it has just begun
	case round < j.next:
		return fmt.Errorf("journal: a segment can't begin with round %d: round %d is in the last one", round, j.next-1)
	}
	if j.failed {
		if err := j.renew(round); err != nil {
			return err
		}
		if round == j.first {
			return nil
		}
	}
	if err := j.syncAll(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.begin(round)
}

// Close closes the journal.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.folder.Close())
}

func (j *Journal) append(k kind, round int, record any, sync bool) error {
	if j.file == nil || round < j.first {
		return fmt.Errorf("journal: round %d is none of the segment's", round)
	}
	payload, err := encodePayload(record)
	if err != nil {
		return fmt.Errorf("journal: round %d: %w", round, err)
	}
	data, err := encodeRecord(k, round, payload)
	if err != nil {
		return fmt.Errorf("journal: round %d: %w", round, err)
	}
	if err := j.write(round, data, sync); err != nil {
		return fmt.Errorf("journal: round %d: %w", round, err)
	}
	j.next = max(j.next, round+1)
	return nil
}

// write appends a record of a round whole or not at all.
func (j *Journal) write(round int, data []byte, sync bool) error {
	if j.failed {
		if err := j.renew(round); err != nil {
			return err
		}
	}
	if j.torn {
		if err := j.file.Truncate(j.size); err != nil {
			return err
		}
		j.torn = false
	}
	if _, err := j.file.WriteAt(data, j.size); err != nil {
		j.torn = j.file.Truncate(j.size) != nil
		return err
	}
	before := j.size
	j.size += int64(len(data))
	if !sync {
		return nil
	}
	if err := j.syncAll(); err != nil {
		j.size = before
		j.torn = j.file.Truncate(j.size) != nil
		return err
	}
	return nil
}

// syncAll brings all that was written onto the disk.
func (j *Journal) syncAll() error {
	if err := j.sync(j.file); err != nil {
		j.failed = true
		return err
	}
	j.synced = j.size
	return nil
}
