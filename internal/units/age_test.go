package units

import (
	"testing"
	"time"
)

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w": 14 * day, "12h": 12 * time.Hour, "90m": 90 * time.Minute, "0d": 0, "1.5d": 36 * time.Hour,
	} {
		if got, err := ParseAge(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1d", "NaNd", "Infd", "1e300w", "30 d", "3 days", "30s", "0x10d ", "30D"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 59*time.Second + 999: "59s", time.Minute: "1m", 59 * time.Minute: "59m", 47 * time.Hour: "47h", 2 * day: "2d", 400 * day: "400d",
	} {
		if got := Age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
