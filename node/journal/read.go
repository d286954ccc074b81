package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
)

// Rounds reads a journal's rounds in order, from a round on, until the last that is there. Where it can't go on it ends
// with an error, of which ErrDamaged says that what follows in that segment is lost, or that rounds are missing;
// reading may go on with a later segment's round. A record that was torn off at the journal's very end is no error, nor
// is a lost Done before a later segment, nor a folder without a journal. It may read beside the journal's writer; it
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

// Find reads one round. It returns ErrNotFound where the journal has nothing of it, ErrDamaged where what it was made
// of can't be read, or for all that is left.
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
	complete := found.Generated != nil && found.Trained != nil // what is damaged is its Done, or none of it
	if err := s.fail(err); err != nil && !(complete && errors.Is(err, ErrDamaged)) {
		return Round{}, err
	}
	if !any {
		return Round{}, fmt.Errorf("round %d: %w", round, ErrNotFound)
	}
	return found, nil
}

// holder is the index of the segment that a round would be in; 0 where it is before all.
func holder(list []segment, round int) int {
	return max(0, sort.Search(len(list), func(i int) bool { return list[i].first > round })-1)
}

// errEnough ends a reading whose caller wants no more.
var errEnough = errors.New("enough")

// reader puts records together to rounds.
type reader struct {
	from, next int // next is the round that must come
	round      Round
	open       bool // round holds something
	over       bool // the caller wants no more
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

// turn hands the round out that is whole when a record of another comes.
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

// complete tells whether all that counts before a segment that begins with round until has been read: damage then cost
// no more than the last round's Done, or bytes that are nobody's.
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
