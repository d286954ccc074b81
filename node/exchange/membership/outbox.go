package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	outboxFile    = "outbox.json"
	outboxLock    = "lock"
	segmentSuffix = ".events"

	segmentBytes = 1 << 20
	outboxBytes  = 1 << 30
	keptBytes    = 8 << 20 // of delivered segments
)

// Outbox keeps a worker's events on disk until the coordinator has them. After kill -9 it has every event that Append
// accepted. After a power failure it has those before the last Sync. Events returned by Next are always on disk. Its
// size is bounded. Above 1 GiB it drops measurements first, then the oldest events that Next never returned. It counts
// both. The nodes' journals also hold the rounds, which are reported again at the next joining. Safe for concurrent use
// within one process. A second process can't open it.
//
// Events are numbered from 1 in the order of Append, under the outbox's name. The coordinator may have more events of
// the outbox than exist here, or fewer than were already dropped. Then one of them has lost its disk, and the outbox
// begins again under another name. The newest delivered segments are kept for a while. So a coordinator that has lost
// the last acknowledged events gets them again under the same name.
type Outbox struct {
	dir    string
	logger *slog.Logger
	lock   *os.File
	limit  int64
	kept   int64 // bytes of delivered segments to keep
	full   int64 // bytes from which a segment is full

	mu       sync.Mutex
	state    outboxState
	segments []*segment // oldest first; the last is being written
	file     *os.File   // of the last segment
	dirty    bool
	suspect  bool  // a sync of the file failed, so its content on disk is unknown
	acked    int64 // number of the newest event that the coordinator has
	front    front
	bytes    int64
	dropped  int64 // measurements dropped for lack of space
	lost     int64 // other events
	failing  int64 // events lost since the disk failed; 0: it works
	crowded  bool
}

// outboxState is the state on disk beside the events.
type outboxState struct {
	Name   string `json:"name"`
	Oldest uint64 `json:"oldest"`          // segment; earlier ones were delivered and deleted
	First  int64  `json:"first"`           // number of that segment's first event
	Acked  int64  `json:"acked,omitempty"` // number of the newest event that the coordinator had when this was written
	Served uint64 `json:"served"`          // newest segment from which Next returned events; its events must keep their numbers
}

type segment struct {
	id      uint64
	count   int
	bytes   int64
	lean    bool              // without measurements
	written []json.RawMessage // content of the segment being written
}

// front caches the content of the oldest segment to deliver.
type front struct {
	id     uint64
	events []json.RawMessage
}

// OpenOutbox opens the folder's outbox, or creates one.
func OpenOutbox(dir string, logger *slog.Logger) (*Outbox, error) {
	o := &Outbox{dir: dir, logger: logger, limit: outboxBytes, kept: keptBytes, full: segmentBytes}
	if err := o.open(); err != nil {
		if o.lock != nil {
			_ = o.lock.Close()
		}
		return nil, fmt.Errorf("open outbox %s: %w", dir, err)
	}
	return o, nil
}

func (o *Outbox) open() error {
	if err := files.MakeFolder(o.dir, 0o700); err != nil {
		return err
	}
	var err error
	if o.lock, err = os.OpenFile(filepath.Join(o.dir, outboxLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := files.Lock(o.lock); err != nil {
		return fmt.Errorf("another process uses it (%w). Try: swarm down with that home, or another --home", err)
	}
	data, err := os.ReadFile(filepath.Join(o.dir, outboxFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Unmarshal(data, &o.state) != nil || !plain(o.state.Name, "") || len(o.state.Name) != 16 || o.state.First < 1 {
		o.state = outboxState{First: 1}
	}
	if err := o.load(); err != nil {
		return err
	}
	if o.state.Name == "" {
		if err := o.renew(); err != nil {
			return err
		}
	}
	o.acked = max(o.state.First-1, min(o.state.Acked, o.newest()))
	return o.begin()
}

// load finds the segments. Existing segments are never appended to.
func (o *Outbox) load() error {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id, err := strconv.ParseUint(strings.TrimSuffix(entry.Name(), segmentSuffix), 10, 64)
		switch {
		case strings.HasSuffix(entry.Name(), ".tmp"):
			_ = os.Remove(filepath.Join(o.dir, entry.Name()))
			continue
		case err != nil || entry.Name() != segmentName(id):
			continue
		}
		s := &segment{id: id}
		data, err := os.ReadFile(o.path(id))
		if err != nil {
			return err
		}
		s.count, s.bytes = len(parseSegment(data)), int64(len(data))
		if id < o.state.Oldest || s.count == 0 {
			if err := os.Remove(o.path(id)); err != nil {
				return err
			}
			continue
		}
		o.segments, o.bytes = append(o.segments, s), o.bytes+s.bytes
	}
	slices.SortFunc(o.segments, func(a, b *segment) int { return int(int64(a.id) - int64(b.id)) })
	if n := len(o.segments); n > 0 { // after kill -9, the kernel may not have written it yet
		return syncFile(o.path(o.segments[n-1].id))
	}
	return nil
}

func segmentName(id uint64) string { return fmt.Sprintf("%012d%s", id, segmentSuffix) }

func (o *Outbox) path(id uint64) string { return filepath.Join(o.dir, segmentName(id)) }

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// renew begins again under another name: every stored event is delivered as if for the first time.
func (o *Outbox) renew() error {
	state := outboxState{Name: fresh(), First: 1, Oldest: o.state.Oldest}
	if len(o.segments) > 0 {
		state.Oldest = o.segments[0].id
	}
	if err := o.save(state); err != nil {
		return err
	}
	o.acked = 0
	return nil
}

// fresh returns a unique outbox name.
func fresh() string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return 'x'
		}
		return r
	}, secret(12))
}

func (o *Outbox) save(state outboxState) error {
	data, err := json.Marshal(state)
	if err == nil {
		err = files.WriteSecret(filepath.Join(o.dir, outboxFile), data)
	}
	if err == nil {
		o.state = state
	}
	return err
}

// begin opens a new segment for writing.
func (o *Outbox) begin() error {
	id := o.state.Oldest
	if n := len(o.segments); n > 0 {
		id = max(id, o.segments[n-1].id+1)
	}
	id = max(id, o.state.Served+1)
	file, err := os.OpenFile(o.path(id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := files.SyncFolder(o.dir); err != nil {
		return errors.Join(err, file.Close())
	}
	o.file, o.dirty = file, false
	o.segments = append(o.segments, &segment{id: id})
	return nil
}

func (o *Outbox) last() *segment { return o.segments[len(o.segments)-1] }

// Append adds an event. If the disk is full or fails, it returns one error. That event and the following ones are lost
// until the disk works again. Then the number of lost events is logged.
func (o *Outbox) Append(e event.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("append to the outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return fmt.Errorf("append to the outbox: %w", fs.ErrClosed)
	}
	if len(raw) > MaxEventBytes {
		o.lost++
		o.logger.Warn("an event is too large to send to the coordinator", "type", e.Type, "node", e.Node, "bytes", len(raw))
		return nil
	}
	if err := o.write(raw); err != nil {
		o.lost++
		o.failing++
		if o.failing > 1 {
			return nil
		}
		return fmt.Errorf("append to the outbox: %w. Try: free some space, or --home on a larger disk", err)
	}
	if o.failing > 0 {
		o.logger.Warn("writing to the outbox works again", "events_lost", o.failing)
		o.failing = 0
	}
	o.crop()
	return nil
}

func (o *Outbox) write(raw json.RawMessage) error {
	s := o.last()
	if s.bytes >= o.full {
		if err := o.rotate(); err != nil {
			return err
		}
		s = o.last()
	}
	line := appendLine(nil, s.count, raw)
	if n, err := o.file.Write(line); err != nil {
		if n > 0 { // an incomplete line must not become the start of the next one
			if err := o.file.Truncate(s.bytes); err != nil {
				return errors.Join(err, o.rotate())
			}
			_, _ = o.file.Seek(s.bytes, 0)
		}
		return err
	}
	o.dirty = true
	s.count, s.bytes, s.written = s.count+1, s.bytes+int64(len(line)), append(s.written, raw)
	o.bytes += int64(len(line))
	return nil
}

// Next returns the oldest events that the coordinator lacks, as far as is known here: at most maxEvents, with at most
// maxBytes of JSON. It returns none if the coordinator has all. Until Ack, it returns the same events again, possibly
// with newer ones. The caller sets Protocol and Run.
func (o *Outbox) Next(maxEvents, maxBytes int) (Delivery, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := Delivery{Outbox: o.state.Name, First: o.acked + 1}
	if o.file == nil {
		return d, fmt.Errorf("read the outbox: %w", fs.ErrClosed)
	}
	if err := o.sync(); err != nil {
		return d, fmt.Errorf("read the outbox: %w", err)
	}
	s, events, skip, err := o.head()
	if err != nil || skip >= len(events) {
		return d, err
	}
	if s.id > o.state.Served {
		state := o.state
		state.Served = s.id
		if err := o.save(state); err != nil {
			return d, fmt.Errorf("read the outbox: %w", err)
		}
	}
	size := 0
	for _, raw := range events[skip:] {
		if len(raw) > min(maxBytes, MaxEventBytes) {
			raw = tombstone
		}
		if size += len(raw) + 1; len(d.Events) >= maxEvents || size > maxBytes {
			break
		}
		d.Events = append(d.Events, raw)
	}
	return d, nil
}

// head returns the oldest segment with events to deliver, its events, and how many of these the coordinator has.
func (o *Outbox) head() (*segment, []json.RawMessage, int, error) {
	s, first := o.segments[0], o.state.First
	for _, next := range o.segments[1:] {
		if o.acked+1 < first+int64(s.count) {
			break
		}
		first += int64(s.count)
		s = next
	}
	skip := int(o.acked + 1 - first)
	if s == o.last() {
		return s, s.written, skip, nil
	}
	if o.front.events == nil || o.front.id != s.id {
		data, err := os.ReadFile(o.path(s.id))
		if err != nil {
			return s, nil, 0, fmt.Errorf("read the outbox: %w", err)
		}
		events := parseSegment(data)
		for len(events) < s.count { // damaged since they were counted
			events = append(events, tombstone)
		}
		o.front = front{s.id, events[:s.count]}
	}
	return s, o.front.events, skip, nil
}

// Ack records that the coordinator has all events up to number n.
func (o *Outbox) Ack(n int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return fmt.Errorf("acknowledge: outbox: %w", fs.ErrClosed)
	}
	if err := o.ack(n); err != nil {
		return fmt.Errorf("acknowledge in the outbox: %w", err)
	}
	return nil
}

func (o *Outbox) ack(n int64) error {
	if n < o.state.First-1 || n > o.newest() {
		o.logger.Warn("the coordinator and the outbox disagree on the delivered events: the outbox starts over under another name",
			"outbox", o.state.Name, "acked", n, "first", o.state.First, "newest", o.newest())
		return o.renew()
	}
	if n < o.acked {
		o.logger.Warn("the coordinator has lost acknowledged events: they are delivered again", "outbox", o.state.Name, "events", o.acked-n)
	}
	o.acked = n
	return o.drop(o.kept)
}

// drop deletes delivered segments, oldest first, until the remaining delivered ones have at most kept bytes.
func (o *Outbox) drop(kept int64) error {
	state, done := o.state, 0
	last, bytes := state.First-1, int64(0)
	for _, s := range o.segments[:len(o.segments)-1] {
		if last += int64(s.count); last > o.acked {
			break
		}
		bytes += s.bytes
	}
	for _, s := range o.segments[:len(o.segments)-1] {
		if bytes <= kept || state.First+int64(s.count)-1 > o.acked {
			break
		}
		state.First += int64(s.count)
		bytes -= s.bytes
		done++
	}
	if done == 0 {
		return nil
	}
	state.Oldest, state.Acked = o.segments[done].id, o.acked
	if err := o.save(state); err != nil {
		return err
	}
	gone := o.segments[:done]
	o.segments = slices.Clone(o.segments[done:])
	for _, s := range gone {
		o.bytes -= s.bytes
		if err := os.Remove(o.path(s.id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// newest returns the newest event's number.
func (o *Outbox) newest() int64 {
	n := o.state.First - 1
	for _, s := range o.segments {
		n += int64(s.count)
	}
	return n
}

// Pending returns how many events the coordinator lacks, as far as is known here, and their approximate bytes.
func (o *Outbox) Pending() (events, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	events = o.newest() - o.acked
	if all := o.newest() - o.state.First + 1; all > 0 {
		bytes = o.bytes * events / all
	}
	return events, bytes
}

// Dropped returns how many events were lost: measurements for lack of space, and others, including those lost to disk
// failures.
func (o *Outbox) Dropped() (measurements, others int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped, o.lost
}

// Close syncs and closes the outbox.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	err := o.sync()
	if o.state.Acked != o.acked {
		state := o.state
		state.Acked = o.acked
		err = errors.Join(err, o.save(state))
	}
	err = errors.Join(err, o.file.Close(), o.lock.Close())
	o.file = nil
	if err != nil {
		return fmt.Errorf("close the outbox: %w", err)
	}
	return nil
}
