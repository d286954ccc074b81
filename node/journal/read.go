package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
)

// Rounds reads a journal's rounds in order, from the given one to the last. If it can't continue, it ends with an
// error. ErrDamaged reports that the rest of that segment is lost or that rounds are missing. The caller may then
// continue with a later segment's round. Three cases are no error: a torn record at the end of the journal, a lost Done
// before a later segment, and a folder without a journal. Rounds may run while another process writes the journal. It
// holds one round in memory.
func Rounds(dir string, from int) iter.Seq2[Round, error] {
	return func(yield func(Round, error) bool) {
		list, err := segments(dir)
		if err != nil {
			yield(Round{}, err)
			return
		}
		reader := reader{from: from, next: from, yield: yield}
		for _, s := range list[holder(list, from):] {
			err := reader.segment(s)
			if err == nil || errors.Is(err, ErrDamaged) && reader.complete(s.until) {
				continue
			}
			if !errors.Is(err, errEnough) {
				reader.flush()
				reader.give(Round{}, err)
			}
			return
		}
		reader.flush()
	}
}

// Find reads one round. It returns ErrNotFound if the journal has no record of the round. It returns ErrDamaged if
// damage makes the round incomplete.
func Find(dir string, round int) (Round, error) {
	list, err := segments(dir)
	if err != nil {
		return Round{}, err
	}
	if len(list) == 0 || round < list[0].first {
		return Round{}, fmt.Errorf("round %d: %w", round, ErrNotFound)
	}
	s := list[holder(list, round)]
	found, any := Round{Round: round}, false
	_, err = s.scan(func(r io.ReaderAt, f frame) (bool, error) {
		if f.round != round {
			return f.round < round, nil
		}
		any = true
		payload, err := readPayload(r, f)
		if err != nil {
			return false, err
		}
		return true, found.add(f.kind, payload)
	})
	complete := found.Generated != nil && found.Trained != nil // only Done is damaged, or a record of a later round
	if err := s.fail(err); err != nil && !(complete && errors.Is(err, ErrDamaged)) {
		return Round{}, err
	}
	if !any {
		return Round{}, fmt.Errorf("round %d: %w", round, ErrNotFound)
	}
	return found, nil
}

// holder returns the index of the segment that would contain a round, 0 for a round before the first segment.
func holder(list []segment, round int) int {
	return max(0, sort.Search(len(list), func(i int) bool { return list[i].first > round })-1)
}

// errEnough ends a scan after the caller has stopped iterating.
var errEnough = errors.New("enough")

// reader combines records into rounds.
type reader struct {
	from, next int // next is the expected round
	round      Round
	open       bool // round holds a record
	over       bool // the caller has stopped iterating
	yield      func(Round, error) bool
}

func (r *reader) segment(s segment) error {
	if s.first > r.next+1 || s.first > r.next && !r.open {
		return r.missing(s.first)
	}
	_, err := s.scan(func(file io.ReaderAt, f frame) (bool, error) {
		if f.round < r.from {
			return true, nil
		}
		if err := r.turn(f.round); err != nil {
			return false, err
		}
		payload, err := readPayload(file, f)
		if err != nil {
			return false, err
		}
		r.open = true
		return true, r.round.add(f.kind, payload)
	})
	return s.fail(err)
}

// turn yields the current round, which is complete, when a record of another round follows.
func (r *reader) turn(round int) error {
	if r.open && round == r.round.Round {
		return nil
	}
	r.flush()
	switch {
	case r.over:
		return errEnough
	case round != r.next:
		return r.missing(round)
	}
	r.round = Round{Round: round}
	return nil
}

// complete reports whether all records needed before a segment have been read. until is the first round of that
// segment. Then the damage cost at most the last round's Done, or bytes of no record.
func (r *reader) complete(until int) bool {
	return r.open && r.round.Round == until-1 && r.round.Generated != nil && r.round.Trained != nil
}

func (r *reader) flush() {
	if r.open {
		r.open = false
		r.next = r.round.Round + 1
		r.give(r.round, nil)
	}
}

func (r *reader) give(round Round, err error) {
	if !r.over {
		r.over = !r.yield(round, err)
	}
}

func (r *reader) missing(until int) error {
	first := r.next
	if r.open {
		first++
	}
	return fmt.Errorf("%w: rounds %d to %d are missing", ErrDamaged, first, until-1)
}
