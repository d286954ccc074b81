package node

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// checkpointSuffix ends the name of a checkpoint's file.
const checkpointSuffix = ".safetensors"

// CheckpointBytes is what the checkpoints below a run's folder take, 0 where it isn't there.
func CheckpointBytes(dir string) int64 {
	var bytes int64
	// What can't be read counts as nothing.
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

// DropSpares drops every checkpoint of a node's folder but the newest, and returns their bytes. It may run beside the
// node: where it takes a checkpoint that the node was about to go back to, the journal brings the node to the same
// state.
func DropSpares(dir string) int64 {
	saves := checkpoints{dir: dir, logger: slog.New(slog.DiscardHandler)}
	list, _ := saves.list()
	var bytes int64
	for _, m := range list[:max(0, len(list)-1)] {
		path := filepath.Join(dir, m.File)
		info, err := os.Stat(path)
		// The manifest goes first: a file without one is nothing.
		if os.Remove(strings.TrimSuffix(path, checkpointSuffix)+".json") == nil && err == nil && os.Remove(path) == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
