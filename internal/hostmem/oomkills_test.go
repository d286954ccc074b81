package hostmem

import "testing"

func TestParseOOMKills(t *testing.T) {
	for text, want := range map[string]int64{"nr_free_pages 1\noom_kill 12\nfoo 3\n": 12, "oom_kill 0": 0, "oom_kill_x 4\n": -1, "oom_kill many\n": -1, "": -1} {
		if got := parseOOMKills([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
