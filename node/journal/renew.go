package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// asideSuffix ends the names of damaged segments that were set aside. Nothing reads them again.
const asideSuffix = ".damaged"

// temporarySuffix ends the name of a segment that is being made of another one.
const temporarySuffix = ".tmp"

// renew goes on in a new file, after a sync of the present one failed. The new one begins with the first round of which
// the last good sync did not cover everything that counts, or with the round that is to be written, and holds what the
// present one has of that and later rounds.
func (j *Journal) renew(round int) error {
	data, first, err := j.carried(round)
	if err != nil {
		return fmt.Errorf("journal: read back what was not synced: %w", err)
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

// carried is the content of the segment that goes on after the present one, and the round that it begins with, round at
// most.
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

// frames are those of the segment that is being written, from an offset on.
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

// restore goes on in a damaged segment after its first size bytes, which are good: it is set aside, and a copy of that
// part takes its place.
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
	if err := os.Link(s.path, asideName(s.path)); err != nil { // a file system without links: for a moment the segment isn't there
		err = os.Rename(s.path, asideName(s.path))
		if err != nil {
			file.Close()
			os.Remove(s.path + temporarySuffix)
			return fmt.Errorf("journal: set a damaged segment aside: %w", err)
		}
	}
	if err := j.publish(file, s.path); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.become(file, s.first, next, size)
	return nil
}

// setAside gives a damaged segment, which nothing can be read of, another name.
func (j *Journal) setAside(path string) error {
	if err := os.Rename(path, asideName(path)); err != nil {
		return fmt.Errorf("journal: set a damaged segment aside: %w", err)
	}
	return nil
}

// asideName is a free name for a segment that is set aside.
func asideName(path string) string {
	name := path + asideSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = path + asideSuffix + "-" + strconv.Itoa(n)
	}
}

// make writes a file and brings it onto the disk.
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

// publish gives a file that make has written its name. On an error it is closed.
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
