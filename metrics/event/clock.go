package event

import "time"

// Now returns the current time as Event.Time records it: Unix seconds with microsecond precision. All code that stamps
// events calls Now, because mixed precision would order events wrongly.
func Now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }
