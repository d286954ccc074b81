// Package powercut provides a file system for tests that loses unsynced data. It keeps its files in memory behind
// FUSE, and so sees every system call of the programs that use it: Go's, SQLite's and NATS's. It logs each change
// and each sync in order. From the log, Log.Cut derives what a machine could find on its disk after losing power at
// any point: names without content, truncated content, part of a write, old names.
//
// It does not model disks that lie about syncs, decaying sectors, writes through shared maps between syncs, or
// times, owners and extended attributes of files. Only tests import it.
package powercut

import (
	"encoding/gob"
	"os"
)

// kind is the kind of a change.
type kind uint8

const (
	created   kind = iota + 1 // Node, under Name in Dir
	linked                    // an existing Node, under Name in Dir
	unlinked                  // Name in Dir
	renamed                   // Name in Dir to NewName in NewDir
	written                   // Data at Offset of Node
	resized                   // Node to Offset bytes
	synced                    // Node, a file or a folder
	forgotten                 // unsynced changes of Node are lost because a sync of it failed
)

// change is one logged operation of the file system: a modification or a sync. Nodes are numbered from 1, the root.
type change struct {
	Kind          kind
	Node          int
	Mode          os.FileMode // of a created node, with its type
	Dir, NewDir   int
	Name, NewName string
	Data          []byte // written bytes, or the target of a link
	Offset        int64
}

// Log records all changes of a file system.
type Log struct {
	Changes []change
}

const root = 1

// readLog reads a log that a server dumped.
func readLog(path string) (Log, error) {
	var log Log
	file, err := os.Open(path)
	if err != nil {
		return log, err
	}
	defer file.Close()
	return log, gob.NewDecoder(file).Decode(&log)
}

// write dumps the log to a file.
func (l Log) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(file).Encode(l); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
