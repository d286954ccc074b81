package stats

// cost returns what seconds come to at a price an hour; nil without a price.
func cost(seconds, pricePerHour float64) *float64 {
	if !(pricePerHour > 0) {
		return nil
	}
	return optional(max(0, seconds) / 3600 * pricePerHour)
}
