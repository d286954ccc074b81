package node

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// checkpointSuffix is the file name suffix of a checkpoint.
const checkpointSuffix = ".safetensors"

// CheckpointBytes is the size of all checkpoints below a run's folder, 0 if the folder does not exist.
func CheckpointBytes(dir string) int64 {
	var bytes int64
	// Unreadable entries count as zero.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, checkpointSuffix) {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// DropSpares deletes all checkpoints in a node's folder except the newest, and returns the bytes freed. The node
// may run meanwhile: if it then needs a deleted checkpoint, the journal brings it to the same state.
func DropSpares(dir string) int64 {
	saves := checkpoints{dir: dir, logger: slog.New(slog.DiscardHandler)}
	list, _ := saves.list()
	var bytes int64
	for _, m := range list[:max(0, len(list)-1)] {
		path := filepath.Join(dir, m.File)
		info, err := os.Stat(path)
		// Delete the manifest first, because a file without one does not count.
		if os.Remove(strings.TrimSuffix(path, checkpointSuffix)+".json") == nil && err == nil && os.Remove(path) == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
