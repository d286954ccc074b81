package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// usual returns a batch of eight questions with eight answers of 1 KB each.
func usual() Batch {
	text := strings.Repeat("The answer follows from the text. ", 30)
	answer := "1"
	batch := Batch{Version: Version, Node: "a", Round: 7}
	for range 8 {
		rollout := Rollout{Question: text, Answer: &answer, Metadata: json.RawMessage(`{"a":1}`)}
		for range 8 {
			rollout.Completions = append(rollout.Completions, Completion{Text: text, Terminated: true})
		}
		batch.Rollouts = append(batch.Rollouts, rollout)
	}
	return batch
}

func TestEncodeDecode(t *testing.T) {
	want := usual()
	want.Rollouts[0].Answer = nil
	want.Rollouts[0].Completions = nil
	want.Rollouts[1].Completions[0].Text = "<answer>1</answer> & \u2028 \x00 \\ \""
	unstamped := want
	unstamped.Version = 0
	data, err := Encode(unstamped)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "<answer>") {
		t.Error("tags are escaped: every batch grows")
	}
	got, err := Decode(data, "a", 7)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if r := Receive(data, "a", 7); r.Rejected != "" || r.Bytes != len(data) || !reflect.DeepEqual(r.Batch, want) {
		t.Errorf("received %+v", r)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Batch){
		"node name":        func(b *Batch) { b.Node = "" },
		"node name \"\\xf": func(b *Batch) { b.Node = "\xff" },
		"round -1":         func(b *Batch) { b.Round = -1 },
		"257 rollouts":     func(b *Batch) { b.Rollouts = make([]Rollout, 257) },
		"257 completions":  func(b *Batch) { b.Rollouts[3].Completions = make([]Completion, 257) },
		"question of":      func(b *Batch) { b.Rollouts[3].Question = strings.Repeat("x", MaxQuestionBytes+1) },
		"question is not":  func(b *Batch) { b.Rollouts[3].Question = "\xc3" },
		"answer of": func(b *Batch) {
			answer := strings.Repeat("x", MaxQuestionBytes+1)
			b.Rollouts[3].Answer = &answer
		},
		"metadata of": func(b *Batch) {
			b.Rollouts[3].Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxMetadataBytes) + `"}`)
		},
		"metadata is not":                       func(b *Batch) { b.Rollouts[3].Metadata = nil },
		"rollout 3: invalid batch: metadata":    func(b *Batch) { b.Rollouts[3].Metadata = json.RawMessage(`[{}]`) },
		"rollout 3: completion 2: invalid":      func(b *Batch) { b.Rollouts[3].Completions[2].Text = strings.Repeat("x", MaxCompletionBytes+1) },
		fmt.Sprintf("more than %d", 8<<20):      func(b *Batch) { *b = oversized() },
		"invalid batch: metadata is not a JSON": func(b *Batch) { b.Rollouts[3].Metadata = json.RawMessage(`{"a":}`) },
	} {
		batch := usual()
		spoil(&batch)
		if _, err := Encode(batch); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// oversized returns a batch that exceeds only the total size: each control character takes six bytes in JSON.
func oversized() Batch {
	batch := usual()
	for i := range batch.Rollouts {
		for j := range batch.Rollouts[i].Completions {
			batch.Rollouts[i].Completions[j].Text = strings.Repeat("\x01", MaxCompletionBytes)
		}
	}
	return batch
}

func TestDecodeRefuses(t *testing.T) {
	const rollout = `{"question":"q","answer":null,"metadata":{},"completions":[]}`
	wrap := func(rollouts string) string {
		return `{"version":1,"node":"a","round":7,"rollouts":` + rollouts + `}`
	}
	for _, test := range []struct{ name, data, want string }{
		{"empty", "", "unexpected EOF"},
		{"null", "null", "version 0"},
		{"list", "[]", "unmarshal"},
		{"not UTF-8", "\"\xff\"", "not UTF-8"},
		{"two documents", wrap("[]") + "{}", "after top-level value"},
		{"version", `{"version":2,"node":"a","round":7}`, "version 2"},
		{"node", `{"version":1,"node":"b","round":7}`, `node "b"`},
		{"round", `{"version":1,"node":"a","round":8}`, "round 8"},
		{"half a round", `{"version":1,"node":"a","round":7.5}`, "unmarshal"},
		{"rollouts are no list", wrap(`{"question":1}`), "unmarshal"},
		{"empty rollout", wrap(`[{}]`), "metadata"},
		{"null rollout", wrap(`[null]`), "metadata"},
		{"null metadata", wrap(`[{"question":"q","metadata":null}]`), "metadata"},
		{"list metadata", wrap(`[{"question":"q","metadata":[]}]`), "metadata"},
		{"metadata too large", wrap(`[{"metadata":{"x":"` + strings.Repeat("x", MaxMetadataBytes) + `"}}]`), "metadata of"},
		{"too many rollouts", wrap("[" + strings.Repeat(rollout+",", MaxRollouts) + rollout + "]"), "more than 256 rollouts"},
		{"too many completions", wrap(`[{"metadata":{},"completions":[` + strings.Repeat(`{"text":"],{"},`, MaxCompletions) + `{}]}]`), "more than 256 completions"},
		{"deep", strings.Repeat(`{"a":[`, 1<<18), "invalid batch"},
		{"long number", `{"round":` + strings.Repeat("9", 1<<20) + `}`, "unmarshal"},
		{"too large", strings.Repeat(" ", MaxBatchBytes+1), "more than"},
	} {
		_, err := Decode([]byte(test.data), "a", 7)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: a reason of %d bytes", test.name, len(err.Error()))
		}
		if r := Receive([]byte(test.data), "a", 7); r.Rejected == "" || len(r.Rollouts) > 0 || r.Node != "a" || r.Round != 7 {
			t.Errorf("%s: received %+v", test.name, r)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	most := strings.Repeat(`{"metadata":{},"completions":[]},`, MaxRollouts-1) + `{"metadata":{},"completions":[` +
		strings.Repeat(`{"text":"\"[,"},`, MaxCompletions-1) + `{}]}`
	for name, data := range map[string]string{
		"unknown fields":   `{"version":1,"node":"a","round":7,"rollouts":[{"metadata":{},"new":[[1],{}]}],"signature":{"by":[1,2]}}`,
		"no rollouts":      `{"version":1,"node":"a","round":7}`,
		"the bounds":       `{"version":1,"node":"a","round":7,"rollouts":[` + most + `]}`,
		"long metadata":    `{"version":1,"node":"a","round":7,"rollouts":[{"metadata":{"grid":[` + strings.Repeat("1,", 1000) + `1]}}]}`,
		"lone surrogate":   `{"version":1,"node":"a","round":7,"rollouts":[{"metadata":{},"question":"\ud800"}]}`,
		"spaces and order": " {\n\"rollouts\":[{\"metadata\": { } }], \"round\":7,\"node\":\"a\",\"version\":1}\n",
	} {
		if _, err := Decode([]byte(data), "a", 7); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecodeAllocates decodes a megabyte of the smallest elements.
func TestDecodeAllocates(t *testing.T) {
	for name, unit := range map[string]string{"objects": "{},", "nulls": "null,", "numbers": "0,"} {
		for _, open := range []string{`{"rollouts":[`, `{"rollouts":[{"completions":[`} {
			data := []byte(open + strings.Repeat(unit, (1<<20)/len(unit)) + "null]" + strings.Repeat("}]", strings.Count(open, "[")-1) + "}")
			if !json.Valid(data) {
				t.Fatalf("%s: the test's batch is no JSON", name)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := Decode(data, "a", 7); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
				t.Errorf("%s: %d bytes allocated for a batch that is refused", name, got)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"node":"a","round":7,"rollouts":[{"question":"q","answer":"\u0000","metadata":{"x":[1]},"completions":[{"text":"\\","terminated":true}]}]}`))
	f.Add([]byte(`{"version":1,"node":"a","round":7,"rollouts":[null,{"completions":[null]}]}`))
	f.Add([]byte(`{"version":1,"node":"a","round":7,"rollouts":[{"metadata":{},"completions":[{"text":"a","tokens":[97],"logprobs":[-0.1,-1e-7]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		batch, err := Decode(data, "a", 7)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("not ErrInvalid: %v", err)
			}
			return
		}
		// A decoded batch can be encoded again, and arrives unchanged.
		again, err := Encode(batch)
		if err != nil {
			if len(data) > MaxBatchBytes/6 { // escapes can make it longer
				return
			}
			t.Fatalf("encode what was decoded: %v", err)
		}
		twice, err := Decode(again, "a", 7)
		if err != nil {
			t.Fatalf("decode again: %v", err)
		}
		if final, err := Encode(twice); err != nil || string(final) != string(again) {
			t.Fatalf("changes on the way: %v\n%s\n%s", err, again, final)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data, err := Encode(usual())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data, "a", 7); err != nil {
			b.Fatal(err)
		}
	}
}
