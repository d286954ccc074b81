package stats

// Cost returns the cost of a duration at a price per hour; nil without a price.
func Cost(seconds, pricePerHour float64) *float64 {
	if !(pricePerHour > 0) {
		return nil
	}
	return Optional(max(0, seconds) / 3600 * pricePerHour)
}
