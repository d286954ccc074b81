package terminal

import (
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Drop orders of the table of pass@1 by cost. A narrow terminal loses the columns in this order: seeds, area, horizons
// by their distance from the common one, last.
const (
	dropLast    = 1
	dropHorizon = 2
	dropArea    = 50
	dropSeeds   = 51
)

// printPer prints a study's held-out pass@1 at horizons of an axis if the user named an axis, horizons or a target.
func printPer(out *table.Page, study *stats.Study) {
	if study == nil || study.Per == nil || !study.Per.Asked {
		return
	}
	p, words := study.Per, wording.PerTable(study.Per)
	if len(words.Rows) == 0 {
		return
	}
	t := table.New(table.Column{Title: words.Heads[0]}, table.Column{Title: words.Heads[1], Right: true, Drop: dropSeeds})
	decides := len(p.Horizons)
	for i, x := range p.Horizons {
		if p.Common != nil && x == *p.Common {
			decides = i
		}
	}
	for i, head := range words.Heads[2:] {
		c := table.Column{Title: head, Right: true}
		switch {
		case i < len(p.Horizons) && i != decides:
			c.Drop = dropHorizon + max(i-decides, decides-i)
		case i == len(p.Horizons):
			c.Drop = dropLast
		case i == len(p.Horizons)+1 && p.Common != nil:
			c.Drop = dropArea
		}
		t.Columns = append(t.Columns, c)
	}
	for _, row := range words.Rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cellText(text)
		}
		t.Add(cells...)
	}
	out.Println(charset.Shown(words.Title) + ".")
	out.Table(t)
	for _, note := range words.Notes {
		out.Println(charset.Shown(note))
	}
	out.Println()
}
