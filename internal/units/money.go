package units

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

const (
	cent  = 0.01
	least = 1e-6 // smaller amounts are shown as "<" this
)

// Money formats an amount in a currency: $4.10, 4.10 EUR, 4.10. Symbols precede the amount, letters follow it. An
// amount below a cent keeps two significant digits ($0.0031), so that no cost is shown as zero. Zero is 0.00.
func Money(amount float64, currency string) string {
	if amount > 0 && amount < least {
		return "<" + InCurrency("0.000001", currency)
	}
	return InCurrency(digits(amount), currency)
}

// MoneyAbout formats an estimate: in whole units from 10 on, below that as Money does.
func MoneyAbout(amount float64, currency string) string {
	if amount >= 10 {
		return InCurrency(strconv.FormatFloat(amount, 'f', 0, 64), currency)
	}
	return Money(amount, currency)
}

// PerHour formats an hourly price with all its digits: $1.29/h, 0.5 EUR/h.
func PerHour(price float64, currency string) string {
	return InCurrency(strconv.FormatFloat(price, 'f', -1, 64), currency) + "/h"
}

// InCurrency puts a currency symbol before the amount, or letters after it.
func InCurrency(amount, currency string) string {
	first, _ := utf8.DecodeRuneInString(currency)
	switch {
	case currency == "":
		return amount
	case unicode.IsLetter(first):
		return amount + " " + currency
	}
	return currency + amount
}

// digits formats an amount with two decimals, or with two significant digits below a cent.
func digits(amount float64) string {
	size := math.Abs(amount)
	decimals := 2
	if size > 0 && size < cent {
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(size, 'e', 1, 64), 64)
		if err == nil && rounded < cent {
			decimals = 1 - int(math.Floor(math.Log10(rounded)+1e-9))
		}
	}
	return strconv.FormatFloat(amount, 'f', decimals, 64)
}
