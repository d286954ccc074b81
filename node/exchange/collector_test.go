package exchange

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func encoded(t testing.TB, node string) []byte {
	t.Helper()
	data, err := Encode(Batch{Node: node, Round: 7})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCollector(t *testing.T) {
	barrier := Barrier{Deadline: 10 * time.Second, Quorum: 2, Limit: 30 * time.Second}
	type want int
	const (
		waits want = iota
		ends
		fails
	)
	for _, test := range []struct {
		name    string
		barrier Barrier
		peers   []string
		shared  []string
		elapsed time.Duration
		looked  bool
		want    want
	}{
		{"all", barrier, []string{"a", "b"}, []string{"b", "a"}, 0, true, ends},
		{"all, before it has looked", barrier, []string{"a"}, []string{"a"}, 0, false, ends},
		{"no peers", barrier, nil, nil, 0, false, ends},
		{"before the deadline", barrier, []string{"a", "b", "c"}, []string{"a", "b"}, 9 * time.Second, true, waits},
		{"at the deadline", barrier, []string{"a", "b", "c"}, []string{"a", "b"}, 10 * time.Second, true, ends},
		{"no quorum at the deadline", barrier, []string{"a", "b", "c"}, []string{"a"}, 29 * time.Second, true, waits},
		{"no quorum at the limit", barrier, []string{"a", "b", "c"}, []string{"a"}, 30 * time.Second, true, fails},
		{"own batch is no quorum", barrier, []string{"a", "self", "c"}, []string{"a", "self"}, 15 * time.Second, true, waits},
		{"own batch completes all", barrier, []string{"a", "self"}, []string{"a", "self"}, 0, true, ends},
		{"zero barrier waits for the look", Barrier{}, []string{"a"}, nil, 4 * time.Second, false, waits},
		{"but not for ever", Barrier{}, []string{"a"}, nil, 5 * time.Second, false, ends},
		{"zero barrier", Barrier{}, []string{"a"}, nil, 0, true, ends},
		{"limit below the deadline", Barrier{Deadline: time.Minute, Quorum: 1}, []string{"a"}, nil, time.Second, true, waits},
		{"strangers don't count", barrier, []string{"a", "b", "c"}, []string{"x", "y", "z"}, time.Minute, true, fails},
	} {
		c := NewCollector(7, "self", test.peers, test.barrier)
		for _, node := range test.shared {
			c.Add(node, encoded(t, node))
		}
		done, err := c.Done(test.elapsed, test.looked)
		got := waits
		if errors.Is(err, ErrNoQuorum) {
			got = fails
		} else if done {
			got = ends
		}
		if got != test.want {
			t.Errorf("%s: done %v, %v", test.name, done, err)
		}
	}
}

func TestCollectorBatches(t *testing.T) {
	c := NewCollector(7, "self", []string{"c", "a", "b", "a"}, Barrier{})
	c.Add("a", encoded(t, "a"))
	c.Add("a", []byte("later, and worse"))
	c.Add("b", []byte("not JSON"))
	got := c.Batches()
	if got[0] != nil || got[1] == nil || got[1].Rejected != "" || got[2] == nil || got[2].Rejected == "" || got[3] != got[1] {
		t.Errorf("got %v", got)
	}
	if missing := c.Missing(); len(missing) != 1 || missing[0] != "c" {
		t.Errorf("missing %v", missing)
	}
}

// TestCollectorNext sleeps as long as Next says and must not miss the moment when Done changes its result.
func TestCollectorNext(t *testing.T) {
	data := encoded(t, "a")
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.IntRange(0, 12)
		barrier := Barrier{
			Deadline: time.Duration(seconds.Draw(t, "deadline")) * time.Second,
			Quorum:   rapid.IntRange(0, 2).Draw(t, "quorum"),
			Limit:    time.Duration(seconds.Draw(t, "limit")) * time.Second,
		}
		looked := rapid.Bool().Draw(t, "looked")
		c := NewCollector(7, "self", []string{"a", "b"}, barrier)
		if rapid.Bool().Draw(t, "a has shared") {
			c.Add("a", data)
		}
		var elapsed time.Duration
		for step := 0; ; step++ {
			if done, _ := c.Done(elapsed, looked); done {
				break
			}
			if step > 3 {
				t.Fatalf("still waiting after %v", elapsed)
			}
			next := elapsed + c.Next(elapsed)
			for at := elapsed; at < next; at += time.Second / 2 {
				if done, _ := c.Done(at, looked); done {
					t.Fatalf("done at %v, but it would have slept until %v", at, next)
				}
			}
			elapsed = next
		}
	})
}
