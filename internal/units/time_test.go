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

func TestTimes(t *testing.T) {
	for s, want := range map[float64][4]string{ // Span, Roughly, Exactly, Elapsed
		-1:          {"0.0 s", "0 s", "-1s", "-1s"},
		0:           {"0.0 s", "0 s", "0s", "0s"},
		3.14:        {"3.1 s", "3 s", "3s", "3.1s"},
		42.4:        {"42s", "42 s", "42s", "42s"},
		59.7:        {"1m00s", "60 s", "1m0s", "1m0s"},
		87:          {"1m27s", "87 s", "1m27s", "1m27s"},
		90:          {"1m30s", "2 min", "1m30s", "1m30s"},
		5399:        {"1h29m", "90 min", "1h29m59s", "1h29m59s"},
		5400:        {"1h30m", "1.5 h", "1h30m0s", "1h30m0s"},
		7512:        {"2h05m", "2.1 h", "2h5m12s", "2h5m12s"},
		3 * 3600:    {"3h00m", "3 h", "3h0m0s", "3h0m0s"},
		9.96 * 3600: {"9h57m", "10 h", "9h57m36s", "9h57m36s"},
		47.2 * 3600: {"1d23h", "47 h", "47h12m0s", "47h12m0s"},
		276000:      {"3d04h", "3 days", "76h40m0s", "76h40m0s"},
	} {
		if got := [4]string{Span(s), Roughly(s), Exactly(s), Elapsed(s)}; got != want {
			t.Errorf("%v: %q, want %q", s, got, want)
		}
	}
	for want, times := range map[string][2]float64{"never": {0, 5}, "1h2m5s ago": {10, 3735}, "0s ago": {10, 5}} {
		if got := Ago(times[0], times[1]); got != want {
			t.Errorf("%v: %q, want %q", times, got, want)
		}
	}
}
