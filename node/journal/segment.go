package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segment is a file of a journal.
type segment struct {
	path  string
	first int // its first round, from its name
	until int // the next segment's first round; math.MaxInt for the last segment
}

func (s segment) last() bool { return s.until == math.MaxInt }

func segmentName(round int) string { return fmt.Sprintf("journal-%08d.log", round) }

// segments lists the segments of a folder in order. It returns none if the folder does not exist.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var list []segment
	for _, entry := range entries {
		digits, ours := strings.CutPrefix(entry.Name(), "journal-")
		digits, log := strings.CutSuffix(digits, ".log")
		round, err := strconv.Atoi(digits)
		if !ours || !log || err != nil || round < 0 || entry.Name() != segmentName(round) {
			continue
		}
		list = append(list, segment{path: filepath.Join(dir, entry.Name()), first: round, until: math.MaxInt})
	}
	slices.SortFunc(list, func(a, b segment) int { return a.first - b.first })
	for i := 1; i < len(list); i++ {
		list[i-1].until = list[i].first
	}
	return list, nil
}

// scan calls visit with each record's frame in order, until visit returns false or the segment ends. It returns the
// offset after the last complete record, judged by headers alone. The error is nil, errTorn, ErrDamaged, ErrVersion, or
// an error of reading or of visit.
func (s segment) scan(visit func(io.ReaderAt, frame) (more bool, err error)) (int64, error) {
	file, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	first, err := decodeSegmentHeader(file)
	if err == nil && first != s.first {
		err = fmt.Errorf("%w: its header has round %d", ErrDamaged, first)
	}
	if err != nil {
		return 0, err
	}
	offset, round := int64(segmentHeader), s.first-1
	for {
		f, err := readFrame(file, offset, info.Size())
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		if f.round < max(round, s.first) || f.round > round+1 || f.round >= s.until {
			return offset, fmt.Errorf("%w: a record of round %d follows round %d", ErrDamaged, f.round, round)
		}
		more, err := visit(file, f)
		if err != nil || !more {
			return offset, err
		}
		offset, round = f.end(), f.round
	}
}

// fail adds the segment's name to an error of scan. A torn tail is no error in the last segment.
func (s segment) fail(err error) error {
	switch {
	case err == nil, errors.Is(err, errTorn) && s.last():
		return nil
	case errors.Is(err, errTorn):
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("%s: %w", filepath.Base(s.path), err)
}
