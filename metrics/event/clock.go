package event

import "time"

// Now is the present as Event.Time counts it. Everything that stamps events uses it: what is cut to another precision
// would be put before what happened earlier.
func Now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }
