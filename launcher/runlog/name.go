// Package runlog reads the logs of one run, also while they are written: each node's and the coordinator's, merged by
// time. It handles rotation, truncation and files that appear late. It takes a run's folder and writes nothing; whose
// run it is, whether it goes on and how lines look on a terminal is the caller's.
package runlog

import (
	"path/filepath"
	"slices"
)

// Coordinator is how the coordinator's log is called among those of nodes.
const Coordinator = "coordinator"

// NodeFile is a node's log in its folder.
const NodeFile = "log.txt"

// coordinatorFile is the coordinator's log in its run's folder.
const coordinatorFile = "coordinator.log"

// Path is where a log is in a run's folder: a node's, or with the name Coordinator that one's. Once it has been
// rotated, older lines are in the same path with .1 after it.
func Path(dir, name string) string {
	if name == Coordinator {
		return filepath.Join(dir, coordinatorFile)
	}
	return filepath.Join(dir, name, NodeFile)
}

// logNames are the logs in a run's folder, the coordinator's first, then nodes in their order.
func logNames(dir string) []string {
	var names []string
	for _, file := range []string{NodeFile, NodeFile + ".1"} {
		paths, _ := filepath.Glob(filepath.Join(dir, "*", file)) // the pattern is a good one
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
