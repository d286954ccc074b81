package policy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// FuzzAnswers reads arbitrary output of a broken engine. Lines end, and each answer is an error, a result of the
// call's type, or reported as invalid.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"result\":{\"completions\":[[1,2]],\"logprobs\":[[-0.5,null]],\"terminated\":[true]}}\n"))
	f.Add([]byte("{\"id\":2,\"error\":{\"kind\":\"out_of_memory\",\"shortage\":{\"where\":\"device\"}}}\n{\"id\":-1,\"result\":null}\ntorn"))
	f.Add([]byte("{\"id\":1e3,\"error\":null,\"result\":[[[[[[[[[]]]]]]]]]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(data), 16)
		read := 0
		for {
			line, err := readLine(r)
			read += len(line)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || len(line) == 0 {
				t.Fatalf("%d bytes: %v", len(line), err)
			}
			var response Response
			if json.Unmarshal(line, &response) != nil {
				continue
			}
			if response.Error != nil {
				_ = response.Error.Error()
			}
			for _, result := range []any{
				new(HelloResult), new(LoadResult), new(GenerateResult), new(UpdateResult), new(LogprobsResult), new(SaveResult), new(RestoreResult), new(Memory),
			} {
				_ = json.Unmarshal(response.Result, result) // must not panic; the caller gets ErrProtocol on an error
			}
		}
		if read != len(data) {
			t.Fatalf("read %d of %d bytes", read, len(data))
		}
	})
}
