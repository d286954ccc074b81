package fit

import (
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// guideRow returns the model's row for the largest card that free covers. It treats a partly used GPU as a smaller card
// with only the free memory. If free is below every row, it returns the smallest row and below is true.
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

// guideRule names the row that determined the count for a GPU.
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
