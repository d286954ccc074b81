package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	readSubjects = 256     // subjects per query
	readBytes    = 4 << 20 // bytes per answer, unless a single batch is larger; keeps the client from becoming a slow consumer
	readBatches  = 256     // batches per query
	maxQuery     = 128 << 10

	lastSequenceHeader = "Nats-Sequence"
	subjectHeader      = "Nats-Subject"
	pendingHeader      = "Nats-Num-Pending"
	statusHeader       = "Status"
	descriptionHeader  = "Description"
)

// query is a direct get of JetStream (ADR-31). Several batches come as several messages and an end marker. A server
// before 2.11 returns one batch at a time.
type query struct {
	Last     []string `json:"multi_last,omitempty"`   // the last batch of each subject, in the order of their sequences
	LastOne  string   `json:"last_by_subj,omitempty"` // the last batch of a subject, which may have wildcards
	Next     string   `json:"next_by_subj,omitempty"` // the batches from Sequence on in a subject, which may have wildcards
	Sequence uint64   `json:"seq,omitempty"`          // the lowest
	Batch    int      `json:"batch,omitempty"`
	MaxBytes int      `json:"max_bytes,omitempty"`
}

// decodeQuery parses a worker's query. It accepts only bounded queries for this run's batches.
func decodeQuery(data []byte, s subjects) (query, error) {
	var q query
	if len(data) > maxQuery {
		return query{}, fmt.Errorf("a query of %d bytes, at most %d", len(data), maxQuery)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return query{}, fmt.Errorf("a query that can't be read: %.200s", err)
	}
	ways := 0
	for _, asked := range []bool{len(q.Last) > 0, q.LastOne != "", q.Next != ""} {
		if asked {
			ways++
		}
	}
	if ways != 1 || len(q.Last) > readSubjects || q.Batch < 0 {
		return query{}, fmt.Errorf("a query of %d kinds and %d subjects: one kind and at most %d subjects are allowed", ways, len(q.Last), readSubjects)
	}
	for _, subject := range append([]string{q.LastOne, q.Next}, q.Last...) {
		if subject != "" && !s.readable(subject) {
			return query{}, fmt.Errorf("a query of %.80q", subject)
		}
	}
	if q.MaxBytes <= 0 || q.MaxBytes > readBytes {
		q.MaxBytes = readBytes
	}
	if q.Next != "" {
		q.Batch = min(max(q.Batch, 1), readBatches)
	} else {
		q.Batch = 0
	}
	return q, nil
}

// stored is a batch in the stream.
type stored struct {
	subject  string
	sequence uint64
	data     []byte
}

// errOneByOne reports that the server doesn't support queries of several batches.
var errOneByOne = errors.New("the server reads one batch at a time")

// fetch makes one query and calls each for every batch in the order of their sequences. It returns how many batches the
// server left for a next query. Missing batches are no error.
func (b *Bus) fetch(ctx context.Context, q query, each func(stored)) (pending int, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return 0, err
	}
	err = b.link.during(ctx, func(ctx context.Context) error {
		inbox := b.conn.NewInbox()
		answers, err := b.conn.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer func() { _ = answers.Unsubscribe() }()
		if err := b.conn.PublishMsg(b.question(inbox, data)); err != nil {
			return err
		}
		pending, err = b.collect(ctx, answers, q.Batch > 0, each)
		return err
	})
	return pending, err
}

// collect reads the messages of one answer.
func (b *Bus) collect(ctx context.Context, answers *nats.Subscription, batch bool, each func(stored)) (pending int, err error) {
	for {
		m, err := b.next(ctx, answers)
		if err != nil {
			return 0, err
		}
		found, more, err := parseAnswer(m)
		if err != nil {
			return 0, err
		}
		if found == nil {
			return more, nil
		}
		each(*found)
		if m.Header.Get(pendingHeader) == "" { // a single batch has no end marker
			if batch {
				b.oneByOne.Store(true)
			}
			return 0, nil
		}
	}
}

// question returns a query as a message: to the stream itself, or to the Admission, which forwards it.
func (b *Bus) question(inbox string, data []byte) *nats.Msg {
	m := nats.NewMsg(b.subjects.direct())
	if b.worker != "" {
		m = b.caller.message(verbRead, nil)
		m.Header.Set(runHeader, b.run)
	}
	m.Reply, m.Data = inbox, data
	return m
}

// next waits for one message of an answer.
func (b *Bus) next(ctx context.Context, answers *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return answers.NextMsgWithContext(ctx)
}

// parseAnswer parses one message of an answer: a batch, or the end marker (nil) with the number of batches left.
func parseAnswer(m *nats.Msg) (_ *stored, pending int, _ error) {
	if refusal := refused(m); refusal != nil {
		return nil, 0, refusal
	}
	switch status := m.Header.Get(statusHeader); status {
	case "":
	case "204":
		pending, err := strconv.Atoi(m.Header.Get(pendingHeader))
		if err != nil {
			pending = 0
		}
		return nil, max(pending, 0), nil
	case "404":
		return nil, 0, nil
	case "408":
		return nil, 0, errOneByOne
	case "503":
		return nil, 0, nats.ErrNoResponders
	default:
		return nil, 0, fmt.Errorf("the server answers %.20s %.200s", status, m.Header.Get(descriptionHeader))
	}
	sequence, err := strconv.ParseUint(last(m.Header.Values(lastSequenceHeader)), 10, 64)
	if err != nil {
		return nil, 0, errors.New("the server's answer has no sequence number")
	}
	return &stored{last(m.Header.Values(subjectHeader)), sequence, m.Data}, 0, nil
}

// last returns the header that the server added. A sender's header of the same name comes earlier.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// lasts calls each for the last batch of every subject, if its sequence is at least least.
func (b *Bus) lasts(ctx context.Context, subjects []string, least uint64, each func(stored)) error {
	for len(subjects) > 0 {
		some := subjects[:min(len(subjects), readSubjects)]
		subjects = subjects[len(some):]
		err := errOneByOne
		if len(some) > 1 && !b.oneByOne.Load() {
			if err = b.lastsAtOnce(ctx, some, least, each); err == nil {
				continue
			}
		}
		if !errors.Is(err, errOneByOne) {
			return err
		}
		b.oneByOne.Store(b.oneByOne.Load() || len(some) > 1)
		for _, subject := range some {
			if _, err := b.fetch(ctx, query{LastOne: subject}, func(found stored) {
				if found.sequence >= least {
					each(found)
				}
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bus) lastsAtOnce(ctx context.Context, subjects []string, least uint64, each func(stored)) error {
	q := query{Last: subjects, Sequence: max(least, 1), MaxBytes: readBytes}
	for {
		pending, err := b.fetch(ctx, q, func(found stored) {
			q.Sequence = found.sequence + 1
			each(found)
		})
		if err != nil || pending == 0 {
			return err
		}
	}
}

// readable reports whether a worker may read a subject: only batches of the run.
func (s subjects) readable(subject string) bool {
	rest, ok := strings.CutPrefix(subject, s.prefix+".rollouts.")
	round, node, _ := strings.Cut(rest, ".")
	return ok && readableToken(round) && readableToken(node) && len(rest) <= 4*maxNameBytes
}

func readableToken(t string) bool {
	return t == "*" || t != "" && !strings.ContainsAny(t, ".*> \t\r\n")
}

// wait returns how long to wait before a refused request is repeated.
func wait(refusal *membership.Refusal) time.Duration {
	seconds := min(max(refusal.RetryAfter, firstBackoff.Seconds()), lastWait.Seconds())
	return units.Seconds(seconds)
}

const lastWait = 30 * time.Second
