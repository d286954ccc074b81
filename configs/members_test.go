package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func models(c Config, nodes int) (list []string) {
	for i := range nodes {
		list = append(list, c.ModelOf(i))
	}
	return list
}

func TestNodesTakeTheModelsInTurn(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "own own own own own own",
		"nano":                   "nano nano nano nano nano nano",
		"nano,micro":             "nano micro nano micro nano micro",
		"nano=2,micro=1":         "nano nano micro nano nano micro",
		" nano = 4 , micro=2":    "nano nano nano nano micro micro",
		"nano=2,micro":           "nano nano micro nano nano micro",
		"/a b/c,nano,nano,micro": "/a b/c nano nano micro /a b/c nano",
	} {
		c := Config{Model: "own", Models: text}
		if text != "" {
			var err error
			if c.Members, err = ParseMembers(text); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(models(c, 6), " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestModelsThatCannotBeReadAreRefused(t *testing.T) {
	for _, text := range []string{" ", ",", "nano,", "nano=", "nano=0", "nano=-1", "nano=1001", "nano=x", "=3", "/a=b/c", "a\nb", strings.Repeat("a,", 64) + "a"} {
		_, err := ParseMembers(text)
		var mistake *Error
		if !errors.As(err, &mistake) || mistake.Key != "models" || mistake.Value != text {
			t.Errorf("%q: error %v", text, err)
		}
		c := experiment(t)
		c.Models = text
		if err := Validate(c); err == nil {
			t.Errorf("%q is valid", text)
		}
	}
}

// The formatted models parse back to the same members, and every model has its share of each turn.
func TestModelsComeBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []Member
		counted, turn := rapid.Bool().Draw(t, "counted"), 0
		for range rapid.IntRange(1, maxMembers).Draw(t, "members") {
			m := Member{Model: rapid.StringMatching(`[a-z/.][a-z/. -]{0,9}[a-z]`).Draw(t, "model"), Nodes: 1}
			if counted {
				m.Nodes = rapid.IntRange(1, 9).Draw(t, "nodes")
			}
			members, turn = append(members, m), turn+m.Nodes
		}
		style := ""
		if counted {
			style = "="
		}
		text := MembersText(style, members)
		got, err := ParseMembers(text)
		if err != nil || !slices.Equal(got, members) {
			t.Fatalf("%q: %+v, %v", text, got, err)
		}
		c := Config{Models: text, Members: members}
		count := map[string]int{}
		for i := range 2 * turn {
			count[c.ModelOf(i)]++
		}
		for _, m := range members {
			count[m.Model] -= 2 * m.Nodes
		}
		for model, off := range count {
			if off != 0 {
				t.Errorf("%s has %d nodes too many in two turns", model, off)
			}
		}
		if err := c.CheckNodes(turn + 1); counted && turn > 1 && err == nil || !counted && err != nil || c.CheckNodes(3*turn) != nil {
			t.Errorf("%q with %d nodes: %v", text, turn+1, err)
		}
	})
}

// A node's configuration equals that of a swarm with its model alone, and neither changes the other.
func TestANodeHasItsModelsOwnKeys(t *testing.T) {
	c := experiment(t)
	c.MicroBatch = 16
	if Changes(c, c.OfNode(3)) != nil || c.LargestMicroBatch() != 16 {
		t.Error("a swarm of one model is not what it was")
	}
	c.Models = "nano,gpt2"
	c.Members = []Member{{"nano", 1, 3e-4, 16}, {"gpt2", 1, 1e-5, 4}}
	own := c.OfNode(3)
	if own.Model != "gpt2" || own.LearningRate != 1e-5 || own.MicroBatch != 4 || own.Models != "" || own.Members != nil {
		t.Errorf("node 3 has %+v", own)
	}
	if c.LargestMicroBatch() != 16 {
		t.Errorf("largest micro-batch %d", c.LargestMicroBatch())
	}
	limited := c.LimitMicroBatch(8)
	if got := []int{limited.MicroBatch, limited.OfNode(0).MicroBatch, limited.OfNode(1).MicroBatch}; !slices.Equal(got, []int{8, 8, 4}) {
		t.Errorf("limited to 8: %v", got)
	}
	if c.Members[0].MicroBatch != 16 {
		t.Error("the unlimited configuration was changed")
	}
	c.Members[1].MicroBatch = 0
	if c.LargestMicroBatch() != 0 || c.LimitMicroBatch(8).OfNode(1).MicroBatch != 8 {
		t.Error("0 is no limit")
	}
}

func TestAModelsOwnRateIsTheExperiments(t *testing.T) {
	c := experiment(t)
	c.Models, c.Members = "nano,gpt2", []Member{{"nano", 1, 3e-4, 16}, {"gpt2", 1, 1e-5, 4}}
	back := stored(t, c)
	if got := Changes(back, c); got != nil {
		t.Errorf("changes of what was stored: %v", got)
	}
	back.Members[1].LearningRate, back.Members[1].MicroBatch = 2e-5, 2
	if got := Changes(c, back); len(got) != 1 || got[0].String() != "members.gpt2.learning_rate 1e-05 → 2e-05" {
		t.Errorf("changes %v", got)
	}
	back = stored(t, c)
	back.Models, back.Members = "", nil
	if got := Changes(back, c); len(got) != 1 || got[0].String() != `models "" → "nano,gpt2"` {
		t.Errorf("changes %v", got)
	}
}
