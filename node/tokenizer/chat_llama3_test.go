package tokenizer

import (
	"slices"
	"testing"
)

func TestLlama3TrimsLikePython(t *testing.T) {
	chat := mustOpen(t, NameHuggingFace, writeFamily(t, families["Llama 3"])).(Chat)
	if got, want := chat.Prompt("\n Be brief.\x1c", "\x1f\u00a0Hi\u3000\x1d "), chat.Prompt("Be brief.", "Hi"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := chat.Prompt("", "\u200bHi\ufeff"), chat.Prompt("", "Hi"); slices.Equal(got, want) {
		t.Error("characters that are not white space were trimmed")
	}
	// The template has a turn for a system prompt of white space, and none without a system prompt.
	if got, want := len(chat.Prompt(" ", "Hi"))-len(chat.Prompt("", "Hi")), 4+len(chat.Encode("system")); got != want {
		t.Errorf("the system turn has %d tokens, want %d", got, want)
	}
}
