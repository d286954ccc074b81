// Package runlog reads the logs of one run, even while they are written: each node's and the coordinator's, merged
// by time. It handles rotation, truncation and files that appear late. It needs the run's folder and writes
// nothing. The caller decides whether the run is over and how to print lines.
package runlog

import (
	"path/filepath"
	"slices"
)

// Coordinator is the name of the coordinator's log among those of nodes.
const Coordinator = "coordinator"

// NodeFile is the name of a node's log in its folder.
const NodeFile = "log.txt"

// coordinatorFile is the name of the coordinator's log in the run's folder.
const coordinatorFile = "coordinator.log"

// Path returns the path of a log in a run's folder: a node's, or the coordinator's for the name Coordinator. After
// rotation, older lines are in that path plus .1.
func Path(dir, name string) string {
	if name == Coordinator {
		return filepath.Join(dir, coordinatorFile)
	}
	return filepath.Join(dir, name, NodeFile)
}

// logNames returns the names of the logs in a run's folder: the coordinator's first, then the nodes' in order.
func logNames(dir string) []string {
	var names []string
	for _, file := range []string{NodeFile, NodeFile + ".1"} {
		paths, _ := filepath.Glob(filepath.Join(dir, "*", file)) // the pattern is valid
		for _, path := range paths {
			names = append(names, filepath.Base(filepath.Dir(path)))
		}
	}
	slices.SortFunc(names, byLength)
	return append([]string{Coordinator}, slices.Compact(names)...)
}

// byLength sorts node_2 before node_10.
func byLength(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}
