package terminal

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Money formats an amount in a currency as it was given: $4.10, 4.10 EUR, 4.10. What is only estimated is told in whole units from 10 on.
func Money(amount float64, currency string, estimated bool) string {
	text := fmt.Sprintf("%.2f", amount)
	if estimated && amount >= 10 {
		text = fmt.Sprintf("%.0f", amount)
	}
	return inCurrency(text, currency)
}

// perHour formats a price: $1.29/h, 0.5 EUR/h.
func perHour(price float64, currency string) string {
	return inCurrency(strconv.FormatFloat(price, 'f', -1, 64), currency) + "/h"
}

// inCurrency puts a sign before the amount and letters after it.
func inCurrency(amount, currency string) string {
	first, _ := utf8.DecodeRuneInString(currency)
	switch {
	case currency == "":
		return amount
	case unicode.IsLetter(first):
		return amount + " " + currency
	}
	return currency + amount
}

// costLine tells what a run costs: `$4.10 so far · about $27 in all · $1.29/h`; empty without a price.
func costLine(x stats.Status) string {
	if x.Cost == nil || x.PricePerHour == nil {
		return ""
	}
	so, all := Money(*x.Cost, x.PriceCurrency, false)+" so far", ""
	if x.ProjectedCost != nil {
		all = "about " + Money(*x.ProjectedCost, x.PriceCurrency, true) + " in all"
	}
	return dotted(so, all, perHour(*x.PricePerHour, x.PriceCurrency))
}

// resumed tells how often a run was taken up again; empty if never.
func resumed(x stats.Status) string {
	if x.Attempts < 2 {
		return ""
	}
	return "resumed " + count(x.Attempts-1, "time")
}
