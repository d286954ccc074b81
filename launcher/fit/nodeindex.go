package fit

import (
	"strconv"
	"strings"
)

// NodeIndex is a node's index among its host's, by its name; 0 for a name of another kind, of a swarm with one model.
func NodeIndex(name string) int {
	index, err := strconv.Atoi(strings.TrimPrefix(name, "node_"))
	if err != nil || index < 0 || NodeName(index) != name {
		return 0
	}
	return index
}
