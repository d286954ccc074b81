package hostmem

import (
	"os"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Use{
		"5581-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  884 kB\nPss:    385 kB\nPss_Dirty: 68 kB\n": {884 << 10, 385 << 10},
		"Rss: 4 kB\nPss: 0 kB\n": {4 << 10, 0},
		"Pss: 8 kB\n":            {0, 8 << 10},
	} {
		if got, ok := parse([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %t; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "Rss: 4 kB\n", "Pss: x kB\n", "Pss: -4 kB", "Pss:", "Rss: -4 kB\nPss: 1 kB\n"} {
		if got, ok := parse([]byte(text)); ok {
			t.Errorf("%q: %v, want none", text, got)
		}
	}
}

func TestOfThisProcess(t *testing.T) {
	if !Told() {
		t.Skip("this kernel does not say what processes share")
	}
	u, err := Of(os.Getpid())
	if err != nil || u.Proportional < 1<<20 || u.Proportional > u.Resident {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := Of(1 << 30); err == nil {
		t.Error("there is no such process")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("Rss: 2 kB\nPss:  1 kB\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if u, ok := parse(data); ok && (u.Proportional < 0 || u.Resident < 0) {
			t.Errorf("%+v", u)
		}
	})
}
