package units

import "testing"

func TestPluralAgreesWithTheNumber(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{1, "node", "1 node"}, {0, "node", "0 nodes"}, {2, "node", "2 nodes"}, {-1, "round", "-1 rounds"},
		{2, "batch", "2 batches"}, {1, "batch", "1 batch"}, {3, "process", "3 processes"}, {2, "policy", "2 policies"},
		{2, "day", "2 days"}, {2, "CPU thread", "2 CPU threads"}, {2, "GPU", "2 GPUs"},
	} {
		if got := Plural(c.n, c.noun); got != c.want {
			t.Errorf("Plural(%d, %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
	}
	if got := Plural(int64(1), "byte"); got != "1 byte" {
		t.Errorf("Plural(int64) = %q", got)
	}
}

func TestVerbAndList(t *testing.T) {
	for n, want := range map[int][2]string{0: {"compute", "are"}, 1: {"computes", "is"}, 2: {"compute", "are"}} {
		if got := [2]string{Verb(n, "compute"), Verb(n, "be")}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := List(names, "or"); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
