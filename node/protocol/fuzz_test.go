package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// FuzzCommands reads arbitrary bytes like a node's stdin. The stream ends, and each command that was read survives
// another write and read unchanged.
func FuzzCommands(f *testing.F) {
	f.Add([]byte("{\"type\":\"start\",\"start\":{\"protocol\":5,\"config\":{\"seed\": 7},\"members\":[{\"node\":\"a\",\"from\":3}]}}\n"))
	f.Add([]byte("{\"type\":\"members\",\"members\":[null,{\"absent\":true}]}\n{\"budget_bytes\":-1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := event.NewReader(bytes.NewReader(data), 1<<12)
		for lines := 0; ; {
			var command protocol.Command
			err := r.Read(&command)
			if errors.Is(err, io.EOF) || errors.Is(err, event.ErrLineTooLong) {
				return
			}
			if lines++; lines > bytes.Count(data, []byte("\n")) {
				t.Fatalf("more lines than there are: %v", err)
			}
			if err != nil {
				continue
			}
			once, err := json.Marshal(command)
			if err != nil {
				t.Fatalf("a command that was read can't be sent: %v", err)
			}
			var again protocol.Command
			if err := json.Unmarshal(once, &again); err != nil {
				t.Fatalf("%s: %v", once, err)
			}
			if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("changes on the way: %v\n%s\n%s", err, once, twice)
			}
		}
	})
}
