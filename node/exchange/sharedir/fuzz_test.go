package sharedir

import (
	"errors"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/node/exchange"
)

func FuzzParseName(f *testing.F) {
	f.Add(nameOf(rolloutStem("node_0", 3, "0123abcd"), "json.zst", []byte("x")))
	f.Add(strings.Replace(nameOf("hello-000001-00000002", "json.zst", nil), ".json", " (1).json", 1))
	f.Add("a-1-0123456789abcdef0123456789abcdef")
	f.Fuzz(func(t *testing.T, name string) {
		e, ok := parseName(name)
		if !ok {
			return
		}
		if e.size < 0 || len(e.hash) != 32 || e.stem == "" || strings.ContainsAny(e.stem, "/\\.\n ") {
			t.Fatalf("%q: %+v", name, e)
		}
		if r, ok := parseRollout(name); ok && (r.round < 0 || r.round > maxRounds || strings.Contains(r.node, "-")) {
			t.Fatalf("%q: %+v", name, r)
		}
		if l, ok := parseLetter(name); ok && (l.session < 0 || l.number < 0) {
			t.Fatalf("%q: %+v", name, l)
		}
	})
}

func FuzzEncodeName(f *testing.F) {
	f.Add("node_0")
	f.Add("../ü\x00")
	f.Fuzz(func(t *testing.T, name string) {
		part := encode(name)
		if len(part) == 0 || len(part) > longPart || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_=") != "" {
			t.Fatalf("%q: %q", name, part)
		}
		if back, ok := decode(part); ok && back != name {
			t.Fatalf("%q became %q", name, back)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack([]byte("hello")))
	f.Add(pack(make([]byte, 1<<20)))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, packed []byte) {
		data, err := unpack(packed, 1<<16)
		if err != nil && !errors.Is(err, errUnpack) || len(data) > 1<<16 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"worker":"w","verb":"deliver","session":1,"number":2,"body":{"first":1,"events":[{}]}}`))
	f.Add([]byte(`{"refusal":{"code":"banned"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := letter{verb: verbDeliver, session: 1, number: 2}
		e, err := openEnvelope(pack(data), "w", l)
		if err != nil {
			if !errors.Is(err, errUnpack) {
				t.Fatal(err)
			}
			return
		}
		if e.Worker != "w" || e.stem() != "deliver-000001-00000002" {
			t.Fatalf("%+v", e)
		}
	})
}

func FuzzForeign(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(strings.Replace(strings.Replace(foreignText, "%s", "a", 1), "%d", "3", 1), "%s", "7")))
	f.Add([]byte(`{"peer_id":"a","round":3,"rollouts":{"1":[{"world_state":null,"actions":null,"metadata":Infinity}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		batch, err := decodeForeign(text, "a", 3)
		if err != nil {
			return
		}
		data, err := exchange.Encode(batch)
		if err != nil {
			if !errors.Is(err, exchange.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := exchange.Decode(data, "a", 3); err != nil {
			t.Fatalf("what was taken can't be read: %v\n%s", err, data)
		}
	})
}

func FuzzArrivals(f *testing.F) {
	f.Add([]byte("mark - 3 7\nfloor x 1 0\nseen x 2 5\nseen"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &arrivals{marks: map[int]int64{}, nodes: map[string]*seen{}}
		a.load(data)
		b := &arrivals{marks: map[int]int64{}, nodes: map[string]*seen{}}
		b.load(a.dump())
		if string(b.dump()) != string(a.dump()) {
			t.Fatalf("%q: %q, then %q", data, a.dump(), b.dump())
		}
		a.since("x", 3, 2, 10)
	})
}
