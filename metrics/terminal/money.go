package terminal

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// costLine describes the cost of a run: `$4.10 so far · about $27 in all · $1.29/h`. It is empty without a price.
func costLine(x stats.Status) string {
	if x.Cost == nil || x.PricePerHour == nil {
		return ""
	}
	so, all := units.Money(*x.Cost, x.PriceCurrency)+" so far", ""
	if x.ProjectedCost != nil {
		all = "about " + units.MoneyAbout(*x.ProjectedCost, x.PriceCurrency) + " in all"
	}
	return wording.Dotted(so, all, units.PerHour(*x.PricePerHour, x.PriceCurrency))
}

// resumed describes how often a run was resumed. It is empty if it never was.
func resumed(x stats.Status) string {
	if x.Attempts < 2 {
		return ""
	}
	return "resumed " + units.Plural(x.Attempts-1, "time")
}
