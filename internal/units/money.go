package units

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

const (
	cent  = 0.01
	least = 1e-6 // smaller amounts are written as less than this
)

// Money writes an amount in a currency: $4.10, 4.10 EUR, 4.10. Signs stand before the amount, letters after it. An
// amount below a cent keeps two significant digits, $0.0031, so that a cost never reads as nothing. Zero is 0.00.
func Money(amount float64, currency string) string {
	if amount > 0 && amount < least {
		return "<" + InCurrency("0.000001", currency)
	}
	return InCurrency(digits(amount), currency)
}

// MoneyAbout writes an estimate: from 10 on in whole units, below as Money does.
func MoneyAbout(amount float64, currency string) string {
	if amount >= 10 {
		return InCurrency(strconv.FormatFloat(amount, 'f', 0, 64), currency)
	}
	return Money(amount, currency)
}

// PerHour writes a price an hour with all its digits: $1.29/h, 0.5 EUR/h.
func PerHour(price float64, currency string) string {
	return InCurrency(strconv.FormatFloat(price, 'f', -1, 64), currency) + "/h"
}

// InCurrency puts a sign before the amount's text and letters after it.
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

// digits is an amount with cents, or with two significant digits where it has less than one.
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
