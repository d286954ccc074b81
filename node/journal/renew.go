package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// asideSuffix ends the names of damaged segments that were set aside. They are never read again.
const asideSuffix = ".damaged"

// temporarySuffix ends the name of a segment under construction.
const temporarySuffix = ".tmp"

// renew continues in a new file after a sync of the current one failed. The new segment begins with the round to be
// written. It begins earlier if an earlier round has a Generated or Trained record that the last successful sync did
// not cover. It contains the current segment's records from its first round on.
func (j *Journal) renew(round int) error {
	data, first, err := j.carried(round)
	if err != nil {
		return fmt.Errorf("journal: read unsynced records: %w", err)
	}
	path := filepath.Join(j.dir, segmentName(first))
	file, err := j.make(path+temporarySuffix, data)
	if err == nil {
		err = j.publish(file, path)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.logger.Warn("the journal continues in a new file, because the old one could not be synced", "file", filepath.Base(path))
	j.become(file, first, max(j.next, first), int64(len(data)))
	return nil
}

// carried returns the content of the segment that replaces the current one, and its first round, which is at most
// round.
func (j *Journal) carried(round int) (data []byte, first int, err error) {
	first = round
	for f, err := range j.frames(j.synced) {
		if err != nil {
			return nil, 0, err
		}
		if f.kind != kindDone {
			first = min(first, f.round)
		}
	}
	data = encodeSegmentHeader(first)
	for f, err := range j.frames(segmentHeader) {
		if err != nil {
			return nil, 0, err
		}
		if f.round < first {
			continue
		}
		payload, err := readPayload(j.file, f)
		if err != nil {
			return nil, 0, err
		}
		record, err := encodeRecord(f.kind, f.round, payload)
		if err != nil {
			return nil, 0, err
		}
		data = append(data, record...)
	}
	return data, first, nil
}

// frames yields the frames of the current segment from an offset on.
func (j *Journal) frames(from int64) func(func(frame, error) bool) {
	return func(yield func(frame, error) bool) {
		for offset := from; ; {
			f, err := readFrame(j.file, offset, j.size)
			if errors.Is(err, io.EOF) || !yield(f, err) || err != nil {
				return
			}
			offset = f.end()
		}
	}
}

// restore continues a damaged segment after its intact beginning, of size bytes. It sets the damaged file aside and
// puts a copy of those bytes in its place.
func (j *Journal) restore(s segment, size int64, next int) error {
	data := make([]byte, size)
	damaged, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = io.ReadFull(damaged, data)
	damaged.Close()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	file, err := j.make(s.path+temporarySuffix, data)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := os.Link(s.path, asideName(s.path)); err != nil { // on a file system without links the segment is briefly missing
		err = os.Rename(s.path, asideName(s.path))
		if err != nil {
			file.Close()
			os.Remove(s.path + temporarySuffix)
			return fmt.Errorf("journal: rename a damaged segment: %w", err)
		}
	}
	if err := j.publish(file, s.path); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.become(file, s.first, next, size)
	return nil
}

// setAside renames a damaged segment that can't be read.
func (j *Journal) setAside(path string) error {
	if err := os.Rename(path, asideName(path)); err != nil {
		return fmt.Errorf("journal: rename a damaged segment: %w", err)
	}
	return nil
}

// asideName returns an unused name for a segment to set aside.
func asideName(path string) string {
	name := path + asideSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = path + asideSuffix + "-" + strconv.Itoa(n)
	}
}

// make writes a file and syncs it.
func (j *Journal) make(path string, data []byte) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, j.sync(file)); err != nil {
		file.Close()
		os.Remove(path)
		return nil, err
	}
	return file, nil
}

// publish renames a file that make has written to its final name. On an error it closes the file.
func (j *Journal) publish(file *os.File, path string) error {
	err := os.Rename(path+temporarySuffix, path)
	if err == nil {
		err = j.folder.Sync()
	}
	if err != nil {
		file.Close()
		os.Remove(path + temporarySuffix)
	}
	return err
}
