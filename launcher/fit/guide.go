package fit

import (
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// guideRow returns the row with most memory that a GPU with so much free memory reaches, of those that know the model.
// A GPU that others use in part is treated as the smaller card its free memory makes it. Below every row, below is true
// and the row is the smallest one.
func guideRow(table []configs.GPU, model string, free int64) (row *configs.GPU, below bool) {
	var smallest *configs.GPU
	for i := range table {
		entry := &table[i]
		if _, known := entry.Nodes[model]; !known {
			continue
		}
		if smallest == nil || entry.MemoryBytes < smallest.MemoryBytes {
			smallest = entry
		}
		if entry.MemoryBytes <= free && (row == nil || entry.MemoryBytes > row.MemoryBytes) {
			row = entry
		}
	}
	if row == nil {
		return smallest, smallest != nil
	}
	return row, false
}

// guideRule names the row that decided about a GPU.
func guideRule(row *configs.GPU, below bool, g GPU) string {
	if below {
		return "guide memory: below the guide table's " + row.Name
	}
	for _, name := range row.Match {
		if strings.Contains(g.Name, name) {
			return "guide table: " + row.Name
		}
	}
	return "guide table: as " + row.Name
}
