package policy

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Work in any process of the group counts, and so does a wait in the kernel. A call that waits for disks is never
// idle.
func TestLookForWork(t *testing.T) {
	began := time.Now()
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	type at struct {
		seconds float64
		states  string
		used    [2]float64
	}
	cases := []struct {
		name    string
		patient bool
		looks   []at
		stalls  bool
	}{
		{"it sleeps", false, []at{{0, "SS", [2]float64{3, 4}}, {5, "SS", [2]float64{3, 4}}, {10, "SS", [2]float64{3, 4}}}, true},
		{"it hardly works", false, []at{{0, "SS", [2]float64{3, 4}}, {5, "RS", [2]float64{3.2, 4}}, {10, "RS", [2]float64{3.2, 4.2}}}, true},
		{"it works", false, []at{{0, "SS", [2]float64{3, 4}}, {5, "RS", [2]float64{3.5, 4}}, {14, "SS", [2]float64{3.5, 4}}}, false},
		{"a rank works", false, []at{{0, "SS", [2]float64{3, 4}}, {9, "SR", [2]float64{3, 4.5}}, {18, "SS", [2]float64{3, 4.5}}}, false},
		{"it works slowly", false, []at{{0, "SS", [2]float64{3, 4}}, {4, "RS", [2]float64{3.3, 4}}, {8, "RS", [2]float64{3.6, 4}},
			{17, "SS", [2]float64{3.6, 4}}}, false},
		{"a rank has gone", false, []at{{0, "SS", [2]float64{3, 4}}, {9, "S", [2]float64{3, 0}}, {18, "S", [2]float64{3, 0}}}, false},
		{"it waits in the kernel", false, []at{{0, "SS", [2]float64{3, 4}}, {9, "DS", [2]float64{3, 4}}, {18, "SS", [2]float64{3, 4}}}, false},
		{"it may wait", true, []at{{0, "SS", [2]float64{3, 4}}, {50, "SS", [2]float64{3, 4}}, {100, "SS", [2]float64{3, 4}}}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := &watch{limit: 10 * time.Second, patient: c.patient, worked: began}
			var err error
			for _, look := range c.looks {
				require.NoError(t, err, "too early")
				var processes []process
				for i, state := range look.states {
					processes = append(processes, process{pid: i, state: byte(state), used: second(look.used[i])})
				}
				err = w.lookForWork(processes, began.Add(second(look.seconds)))
			}
			if c.stalls {
				require.ErrorIs(t, err, ErrEngineStalled)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// A stop right after a SIGCONT is a new stop if the engine has worked in between, and the same stop if it has not.
func TestWatchTellsTwoStopsFromOne(t *testing.T) {
	began := time.Now()
	for _, works := range []bool{true, false} {
		woken := 0
		w := &watch{every: time.Second, wake: func() { woken++ }, trouble: func(string) {}}
		look := func(seconds float64, used time.Duration) error {
			return w.lookForStop([]process{{state: 'T', used: used}}, began.Add(time.Duration(seconds*float64(time.Second))))
		}
		require.NoError(t, look(0, time.Second))
		require.NoError(t, look(5, time.Second))
		require.Equal(t, 1, woken)
		if !works {
			require.ErrorIs(t, look(10, time.Second+clockTick), ErrEngineStalled)
			continue
		}
		require.NoError(t, look(10, 2*time.Second))
		require.NoError(t, look(14, 2*time.Second), "its patience begins anew")
		require.NoError(t, look(15, 2*time.Second))
		require.Equal(t, 2, woken)
		require.ErrorIs(t, look(20, 2*time.Second), ErrEngineStalled)
	}
}

// After a long time without checks (this process was stopped, or the machine slept), the engine gets its full time
// again.
func TestWatchThatDidNotLookHoldsNothingAgainstTheEngine(t *testing.T) {
	began := time.Now()
	w := &watch{pid: os.Getpid(), limit: 10 * time.Second, every: time.Second, trouble: func(string) {}}
	require.NoError(t, w.look(began))
	w.used, w.worked = time.Hour, began // idle from here, whatever it had used
	processes := group(w.pid)
	require.NotEmpty(t, processes)
	w.used = processes[0].used
	require.NoError(t, w.look(began.Add(time.Hour)))
	require.Equal(t, began.Add(time.Hour), w.worked)
}

func TestParseProcess(t *testing.T) {
	line := "4242 (a b) c) T 1 4240 4240 0 -1 4194304 100 0 0 0 150 25 0 0 20 0 3 0 5000 100000 500 18446744073709551615"
	p, ok := parseProcess(4242, []byte(line))
	require.True(t, ok)
	require.Equal(t, process{pid: 4242, group: 4240, state: 'T', used: 1750 * time.Millisecond}, p)
	for _, bad := range []string{"", "1", "1 (x) S 1", "1 (x) S 1 y 1 0 -1 4194304 100 0 0 0 150 25", "1 (x) S 1 1 1 0 -1 4194304 100 0 0 0 a 25"} {
		_, ok := parseProcess(1, []byte(bad))
		require.False(t, ok, bad)
	}
	own, ok := readProcess(os.Getpid())
	require.True(t, ok)
	require.Equal(t, syscall.Getpgrp(), own.group)
}

func FuzzParseProcess(f *testing.F) {
	f.Add([]byte("1 (x) S 1 1 1 0 -1 4194304 100 0 0 0 150 25"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := parseProcess(1, line); ok && p.state == 0 {
			t.Fatalf("no state in %q", line)
		}
	})
}
