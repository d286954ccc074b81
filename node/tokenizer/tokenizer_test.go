package tokenizer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"
)

func mustNew(t testing.TB, name string) Tokenizer {
	t.Helper()
	tok, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestNew(t *testing.T) {
	for name, want := range map[string]struct{ eos, vocab int }{"bytes": {256, 257}, "gpt2": {50256, 50257}} {
		tok := mustNew(t, name)
		if tok.EOS() != want.eos || tok.VocabSize() != want.vocab || tok.Name() != name {
			t.Errorf("%s: EOS %d, vocabulary %d, name %q", name, tok.EOS(), tok.VocabSize(), tok.Name())
		}
	}
	if _, err := New("qwen2"); err == nil || !strings.Contains(err.Error(), `"qwen2"`) {
		t.Errorf("unknown name: %v", err)
	}
}

func TestGPT2KnownIDs(t *testing.T) {
	tok := mustNew(t, NameGPT2)
	for text, want := range map[string][]int{
		"":              {},
		"Hello world":   {15496, 995},
		"hello world":   {31373, 995},
		"\n":            {198},
		"\n\n":          {628},
		" ":             {220},
		"<|endoftext|>": {27, 91, 437, 1659, 5239, 91, 29},
	} {
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("Encode(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestDecodeDropsWhatIsNoText(t *testing.T) {
	for _, test := range []struct {
		name string
		ids  []int
		want string
	}{
		{NameBytes, []int{'a', 256, 'b', 257, -1, 1 << 40}, "ab"},
		{NameBytes, []int{'a', 0xff, 0xfe, 'b', 0xc3}, "a\uFFFDb\uFFFD"},
		{NameGPT2, []int{15496, 50256, 995, 50257, -1, 1 << 40}, "Hello world"},
		{NameGPT2, []int{187, 15496}, "\uFFFDHello"},
		{NameGPT2, nil, ""},
	} {
		if got := mustNew(t, test.name).Decode(test.ids); got != test.want {
			t.Errorf("%s: Decode(%v) = %q, want %q", test.name, test.ids, got, test.want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{NameBytes, NameGPT2} {
		tok := mustNew(t, name)
		rapid.Check(t, func(t *rapid.T) {
			text := genText().Draw(t, "text")
			ids := tok.Encode(text)
			if got := tok.Decode(ids); got != text {
				t.Fatalf("%s: %q came back as %q", name, text, got)
			}
			if slices.ContainsFunc(ids, func(id int) bool { return id < 0 || id >= tok.EOS() }) {
				t.Fatalf("%s: ids of %q leave the vocabulary: %v", name, text, ids)
			}
		})
	}
}

// genText mixes arbitrary runes with those that the pattern treats specially.
func genText() *rapid.Generator[string] {
	part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"'s", "'ll", "'Re", "'", " ", "  ", "\t", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2028", "12", "\u0664", "\u00bd", "e\u0301",
		"\u4f60\u597d", "\U0001F600", "<|endoftext|>", "<answer>", "aaaaaaaa", "........", "the", " The",
	}))
	return rapid.Map(rapid.SliceOfN(part, 0, 12), func(parts []string) string { return strings.Join(parts, "") })
}

// TestGPT2AgainstTiktoken compares with an independent implementation of the same encoding.
func TestGPT2AgainstTiktoken(t *testing.T) {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("r50k_base.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	const pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	bpe, err := tiktoken.NewCoreBPE(ranks, map[string]int{tiktoken.ENDOFTEXT: gpt2EOS}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	oracle := tiktoken.NewTiktoken(bpe, nil, nil)
	tok := mustNew(t, NameGPT2)
	rapid.Check(t, func(t *rapid.T) {
		text := genText().Draw(t, "text")
		if got, want := tok.Encode(text), oracle.EncodeOrdinary(text); !slices.Equal(got, want) {
			t.Fatalf("Encode(%q) = %v, tiktoken gives %v", text, got, want)
		}
	})
}

func TestVocabularyIsOpenAIs(t *testing.T) {
	unpacked, err := gzip.NewReader(bytes.NewReader(gpt2Vocabulary))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, unpacked); err != nil {
		t.Fatal(err)
	}
	// tiktoken checks the same hash (tiktoken_ext/openai_public.py).
	const want = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("sha256 %s, want %s", got, want)
	}
}

func TestReadVocabularyRefusesDamage(t *testing.T) {
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := pack("YQ== 0\nYg== 1\n")
	if _, err := readVocabulary(whole, 2); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for name, packed := range map[string][]byte{
		"no gzip": []byte("YQ== 0\n"), "cut": whole[:len(whole)-9], "too few": pack("YQ== 0\n"), "id too large": pack("YQ== 0\nYg== 2\n"),
		"twice": pack("YQ== 0\nYQ== 1\n"), "no rank": pack("YQ== 0\nYg==\n"), "no base64": pack("YQ== 0\n! 1\n"),
	} {
		if _, err := readVocabulary(packed, 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHostileTextIsBounded encodes texts that make byte-pair encoders and backtracking patterns quadratic. Each is
// twice as long as the longest completion.
func TestHostileTextIsBounded(t *testing.T) {
	tok := mustNew(t, NameGPT2)
	const size = 128 << 10
	for name, unit := range map[string]string{"letters": "a", "spaces": " ", "newlines": "\n", "quotes": "'", "mixed spaces": " \t\n", "cjk": "\u4f60", "dots": "."} {
		text := strings.Repeat(unit, size/len(unit))
		start := time.Now()
		ids := tok.Encode(text)
		if took := time.Since(start); took > 5*time.Second { // a quadratic merge takes minutes
			t.Errorf("%s: %v", name, took)
		}
		if tok.Decode(ids) != text {
			t.Errorf("%s: came back changed", name)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := mustNew(t, NameGPT2)
	want := tok.Encode("What is 12 + 30? It's 42.")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := tok.Encode("What is 12 + 30? It's 42."); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	group.Wait()
}

func FuzzGPT2(f *testing.F) {
	tok := mustNew(f, NameGPT2)
	f.Add("Hello world")
	f.Add("it's 12\xff  <|endoftext|>")
	f.Fuzz(func(t *testing.T, text string) {
		got := tok.Decode(tok.Encode(text))
		if want := strings.ToValidUTF8(text, "\uFFFD"); got != want || !utf8.ValidString(got) {
			t.Fatalf("%q came back as %q", text, got)
		}
	})
}

func BenchmarkEncodeGPT2(b *testing.B) {
	tok := mustNew(b, NameGPT2)
	text := strings.Repeat("Calculate -5 - 6. Reply with <answer>the number</answer>, it's that simple. ", 10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}

func BenchmarkNewGPT2(b *testing.B) {
	for b.Loop() {
		mustNew(b, NameGPT2)
	}
}
