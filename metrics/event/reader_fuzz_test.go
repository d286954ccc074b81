package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// FuzzReader reads untrusted bytes as a stream of events. The reader terminates, holds no more than its limit, and each
// event it returns survives another round trip unchanged.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"type\":\"round\",\"node\":\"node_0\",\"round\":{\"round\":1,\"peers\":[{\"node\":\"a\",\"late\":true}]}}\n{\"type\":"))
	f.Add([]byte("null\n[]\n{}\n\n{\"lease\":null,\"time\":1e308}\n"))
	f.Fuzz(readAll)
}

func readAll(t *testing.T, data []byte) {
	const limit = 1 << 12
	r := NewReader(bytes.NewReader(data), limit)
	lines := 0
	for {
		var v Event
		err := r.Read(&v)
		if cap(r.buf) > 4*limit+128<<10 { // the line plus one read of the underlying reader
			t.Fatalf("holds %d bytes", cap(r.buf))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, ErrLineTooLong) {
			return
		}
		if lines++; lines > bytes.Count(data, []byte("\n")) {
			t.Fatalf("more lines than there are: %v", err)
		}
		if err != nil {
			continue
		}
		once, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("what was read can't be sent: %v", err)
		}
		var again Event
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("changes on the way: %v\n%s\n%s", err, once, twice)
		}
	}
}
