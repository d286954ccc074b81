package membership

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sapo-swarm/swarm/internal/files"
)

// rotate closes the current segment and begins the next.
func (o *Outbox) rotate() error {
	if err := o.sync(); err != nil {
		return err
	}
	old, closed := o.last(), o.file
	if err := o.begin(); err != nil {
		return err
	}
	old.written = nil
	return closed.Close()
}

// Sync makes all appended events durable.
func (o *Outbox) Sync() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.sync(); err != nil {
		return fmt.Errorf("sync the outbox: %w", err)
	}
	return nil
}

func (o *Outbox) sync() error {
	if !o.dirty || o.file == nil {
		return nil
	}
	if o.suspect {
		if err := o.rewrite(); err != nil {
			return err
		}
	} else if err := o.file.Sync(); err != nil {
		o.suspect = true
		return err
	}
	o.dirty = false
	return nil
}

// rewrite copies the current segment into a new file. After a failed sync, the kernel may have discarded pages that it
// couldn't write. But another sync of the same file would succeed.
func (o *Outbox) rewrite() error {
	s := o.last()
	var data []byte
	for i, raw := range s.written {
		data = appendLine(data, i, raw)
	}
	if err := files.WriteSecret(o.path(s.id), data); err != nil {
		return err
	}
	file, err := os.OpenFile(o.path(s.id), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return errors.Join(err, file.Close())
	}
	old := o.file
	o.file, o.suspect = file, false
	o.logger.Warn("the outbox continues in a new file, because the old one could not be synced", "outbox", o.state.Name)
	_ = old.Close() // may fail like its sync
	return nil
}
