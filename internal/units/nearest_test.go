package units

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	commands := strings.Fields("up join workers sweep plan tune run profile status attach logs down compare curve eval export import")
	for name, want := range map[string]string{
		"upp": "up", "staus": "status", "comapre": "compare", "stats": "status", "Plan": "plan", "log": "logs",
		"plan": "", "frobnicate": "", "xyz": "", "": "", strings.Repeat("p", 61): "",
		"ort": "", // export and import are equally far, and too far
	} {
		if got := Nearest(name, commands); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	keys := strings.Fields("learning_rate num_generations num_train_samples rounds seed")
	for name, want := range map[string]string{
		"learning_rat": "learning_rate", "Learning-Rate": "learning_rate", "num_generation": "num_generations", "sede": "seed", "lr": "",
	} {
		if got := Nearest(name, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	presets := strings.Fields("8loc0ext 6loc2ext 4loc4ext 2loc6ext")
	if got := Nearest("4loc5ext", presets); got != "4loc4ext" {
		t.Errorf("one edit away: %q", got)
	}
	if got := Nearest("5loc5ext", presets); got != "" {
		t.Errorf("all are two edits away: %q", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "axc", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := EditDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := EditDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
