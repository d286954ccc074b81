package fit

import (
	"strconv"
	"strings"
)

// NodeIndex returns a node's index on its host, from its name. It returns 0 for any other kind of name.
func NodeIndex(name string) int {
	index, err := strconv.Atoi(strings.TrimPrefix(name, "node_"))
	if err != nil || index < 0 || NodeName(index) != name {
		return 0
	}
	return index
}
