package event

// Alarm says that a run's gradients have grown as they did before recorded collapses (docs/METRICS.md, "The alarm").
// Its event's Message says what to try.
type Alarm struct {
	Round     int     `json:"round"`     // from 0: the newest of the rounds that were judged
	Recent    float64 `json:"recent"`    // gradient norm, mean over nodes and the newest rounds
	Reference float64 `json:"reference"` // the same of the early rounds that Recent is compared with
	Action    string  `json:"action"`    // what follows: one of Alarm*

	LowerFrom int `json:"lower_from,omitempty"` // with AlarmLower: the first round with a lower learning rate
}

// Actions of an Alarm.
const (
	AlarmWarn  = "warn"       // nothing
	AlarmStop  = "stop"       // the run stops cleanly
	AlarmLower = "lower-rate" // the learning rate becomes lower
)
