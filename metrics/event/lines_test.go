package event

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestLinesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []Event
		var buf bytes.Buffer
		w := NewWriter(&buf)
		for range rapid.IntRange(0, 8).Draw(t, "events") {
			e := Event{
				Type: TypeRound, Node: rapid.StringMatching(`node_[0-9]`).Draw(t, "node"), Message: rapid.String().Draw(t, "message"),
				Round: &Round{Round: rapid.IntRange(0, 1<<30).Draw(t, "round"), Reward: rapid.Float64Range(0, 1).Draw(t, "reward")},
			}
			// JSON replaces invalid UTF-8; nodes send only valid UTF-8.
			e.Message = strings.ToValidUTF8(e.Message, "")
			sent = append(sent, e)
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		r := NewReader(&buf, MaxLine)
		for i, want := range sent {
			var got Event
			if err := r.Read(&got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("event %d: got %+v, want %+v", i, got, want)
			}
		}
		var none Event
		if err := r.Read(&none); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestReaderRefuses(t *testing.T) {
	cases := []struct {
		name, in string
		want     string
	}{
		{"torn last line", `{"type":"sta`, "EOF"},
		{"no JSON", "hello\n", "decode line"},
		{"too long", `{"message":"` + strings.Repeat("x", 200<<10) + "\"}\n", ErrLineTooLong.Error()},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var e Event
			err := NewReader(strings.NewReader(c.in), 128<<10).Read(&e)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A reader continues after a line that is not JSON: one bad line from a child does not end the stream.
func TestReaderGoesOn(t *testing.T) {
	r := NewReader(strings.NewReader("garbage\n{\"type\":\"state\"}\n"), MaxLine)
	var e Event
	if err := r.Read(&e); err == nil {
		t.Fatal("garbage was read")
	}
	if err := r.Read(&e); err != nil || e.Type != TypeState {
		t.Fatalf("got %+v, %v", e, err)
	}
}

func TestWriterNeverInterleaves(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := w.Write(Event{Type: TypeState, Message: strings.Repeat("x", 1000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := NewReader(&buf, MaxLine)
	for range 800 {
		var e Event
		if err := r.Read(&e); err != nil {
			t.Fatal(err)
		}
	}
}
