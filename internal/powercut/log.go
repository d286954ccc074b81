// Package powercut is a file system that forgets what was not synced, for tests. It keeps its files in memory, behind
// FUSE, so that it meets every system call of the programs above it: Go's, SQLite's and NATS's. It writes down each
// change and each sync, in order, and Log.Cut makes of that what a machine could find on its disk that lost power after
// any of them: names without their files' content, content without its end, a part of a write, old names.
//
// What it leaves out: disks that lie about syncs, sectors that decay, writes through shared maps between syncs, and
// times, owners and extended attributes of files. Only tests import it.
package powercut

import (
	"encoding/gob"
	"os"
)

// kind is that of a change.
type kind uint8

const (
	created   kind = iota + 1 // Node, by the name Name in Dir
	linked                    // an existing Node, by the name Name in Dir
	unlinked                  // Name in Dir
	renamed                   // Name in Dir to NewName in NewDir
	written                   // Data at Offset of Node
	resized                   // Node to Offset bytes
	synced                    // Node, a file or a folder
	forgotten                 // what is not synced of Node never will be: a sync of it failed
)

// change is one change or sync. Nodes are numbered; 1 is the root.
type change struct {
	Kind          kind
	Node          int
	Mode          os.FileMode // of a created one, with its type
	Dir, NewDir   int
	Name, NewName string
	Data          []byte // written, or the target of a link
	Offset        int64
}

// Log is all that happened to a file system.
type Log struct {
	Changes []change
}

const root = 1

// readLog reads what a server dumped.
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
