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

// lockPatience is how long Open waits for the previous writer, a node that ends soon because its launcher has died.
const lockPatience = 5 * time.Second

// Journal appends to a node's journal. Its methods must be called from one goroutine. After an error the record is not
// in the journal, and the next call may succeed. After a failed sync it is unknown which bytes are on disk, and a later
// successful sync proves nothing. So the next call continues in a new file, which includes the rounds that the last
// successful sync did not cover.
type Journal struct {
	dir    string
	logger *slog.Logger
	folder *os.File // locked
	file   *os.File // the last segment; nil before Resume
	first  int      // first round of the segment
	next   int      // first round without a record in the segment
	size   int64    // of the complete records, in bytes
	synced int64    // how many of these bytes are on disk
	torn   bool     // the file may be longer than size
	failed bool     // a sync of the file failed

	sync func(*os.File) error // (*os.File).Sync except in tests
}

// Open opens the journal in an existing folder. It changes nothing. Call Resume before appending. One process at a time
// can have a journal open. Another one gets ErrInUse after a few seconds.
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

// Resume prepares the journal for records of a round. It drops all records of that round and later ones, except the
// round's own Generated. Damaged parts before that round stay as they are, and a new segment begins. Before a damaged
// segment is written again, or a new segment gets its name, Resume sets the whole damaged file aside.
func (j *Journal) Resume(round int) error {
	list, err := segments(j.dir)
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0 && list[i].first > round; i-- { // newest first: if this is interrupted, the remaining segments are complete
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
			j.logger.Warn("journal segment no longer used", "file", filepath.Base(last.path), "reason", err)
		}
		if last.first == round {
			if err := j.setAside(last.path); err != nil {
				return err
			}
		}
		return j.begin(round)
	case last.damaged():
		j.logger.Warn("journal segment is damaged: its readable part is used", "file", filepath.Base(last.path))
		return j.restore(last, size, reached+1)
	}
	return j.appendTo(last, size, reached+1)
}

// keep finds the part of a segment that precedes a round, plus that round's Generated. It returns the part's size in
// bytes and its last round. ErrDamaged reports that damage ended the part.
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

// damaged reports whether the segment has damage other than a torn record at its end.
func (s segment) damaged() bool {
	_, err := s.scan(func(r io.ReaderAt, f frame) (bool, error) {
		_, err := readPayload(r, f)
		return true, err
	})
	return errors.Is(err, ErrDamaged)
}

// begin creates a new segment. It replaces an empty or torn one of the same name.
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

// appendTo continues a segment after its beginning, of size bytes, which holds no record of round next.
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

// Generated logs the generated completions. Call it before sharing them.
func (j *Journal) Generated(round int, record Generated) error {
	return j.append(kindGenerated, round, record, false)
}

// Trained logs a training set. When it returns, the record and all earlier records are on disk.
func (j *Journal) Trained(round int, record Trained) error {
	return j.append(kindTrained, round, record, true)
}

// Done logs that a round was reported. For a round before the current segment it logs nothing: that round's segment has
// lost the record and is not changed. Readers that need the event repeat the round's update.
func (j *Journal) Done(round int, record Done) error {
	if j.file != nil && round < j.first {
		return nil
	}
	return j.append(kindDone, round, record, false)
}

// Rotate begins a new segment with a round that has no record yet. When it returns, all earlier records are on disk.
func (j *Journal) Rotate(round int) error {
	switch {
	case j.file == nil:
		return errors.New("journal: not resumed yet")
	case round == j.first && j.next == round:
		return nil // it has just begun
	case round < j.next:
		return fmt.Errorf("journal: a segment cannot begin with round %d: round %d is in the last segment", round, j.next-1)
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
		return fmt.Errorf("journal: round %d is not in the segment", round)
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

// write appends a record completely or not at all.
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

// syncAll syncs all written records to disk.
func (j *Journal) syncAll() error {
	if err := j.sync(j.file); err != nil {
		j.failed = true
		return err
	}
	j.synced = j.size
	return nil
}
