package configs

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// stored is a configuration after a round trip through the database.
func stored(t *testing.T, c Config) Config {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Config
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func experiment(t *testing.T) Config {
	t.Helper()
	c := Default()
	c.Model, c.Experiment = "nano", "x"
	mixture, err := TaskSet("nano")
	if err != nil {
		t.Fatal(err)
	}
	c.Tasks.Mixture = mixture
	return c
}

func TestAStoredConfigurationHasNotChanged(t *testing.T) {
	c := experiment(t)
	if got := Changes(stored(t, c), c); got != nil {
		t.Errorf("changes %v", got)
	}
}

// alter gives a field another value of its type.
func alter(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(field.String() + "x")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Float64:
		field.SetFloat(field.Float() + 1)
	default:
		field.SetInt(field.Int() + 1)
	}
}

// requireOne requires a single difference, under key, with two distinguishable sides.
func requireOne(t *testing.T, before, after Config, key string) {
	t.Helper()
	got := Differences(before, after)
	if len(got) != 1 || got[0].Key != key || got[0].Before == got[0].After {
		t.Errorf("%s: %v", key, got)
	}
	back := Differences(after, before)
	if len(back) != 1 || back[0].Key != key || len(got) == 1 && (back[0].Before != got[0].After || back[0].After != got[0].Before) {
		t.Errorf("%s, the other way round: %v", key, back)
	}
}

// Changing one key alone reports exactly that key, for every key. So a key that is added later is compared, too, and
// belongs to the experiment's class.
func TestEveryKeyThatIsChangedAloneIsTheOneThatDiffers(t *testing.T) {
	fields := map[string]int{}
	var walk func(at []int, typ reflect.Type, prefix string)
	walk = func(at []int, typ reflect.Type, prefix string) {
		for i := range typ.NumField() {
			name, index := prefix+typ.Field(i).Tag.Get("mapstructure"), append(slices.Clone(at), i)
			switch field := typ.Field(i).Type; {
			case field.Kind() == reflect.Struct:
				walk(index, field, name+".")
				continue
			case field == reflect.TypeFor[[]TaskSpec](), field == reflect.TypeFor[[]Member]():
				continue // see below: entry by entry
			}
			fields[name]++
			before := experiment(t)
			after := stored(t, before)
			alter(reflect.ValueOf(&after).Elem().FieldByIndex(index))
			requireOne(t, before, after, name)
			if changed := Changes(before, after) != nil; changed != (ClassOf(name) == ClassExperiment) {
				t.Errorf("%s is of class %s, and a change: %t", name, ClassOf(name), changed)
			}
		}
	}
	walk(nil, reflect.TypeFor[Config](), "")
	for _, key := range Keys() {
		if key != MixtureKey && fields[key] != 1 {
			t.Errorf("%s is met %d times", key, fields[key])
		}
	}
	for key := range classes {
		if _, err := FindKey(key); err != nil {
			t.Errorf("class of %s: %v", key, err)
		}
	}
}

func TestTheMixtureIsComparedEntryByEntry(t *testing.T) {
	base := experiment(t)
	first := base.Tasks.Mixture[0].Name
	compared := 0
	for i, spec := range base.Tasks.Mixture {
		for field := range reflect.TypeFor[TaskSpec]().NumField() {
			name := reflect.TypeFor[TaskSpec]().Field(field).Tag.Get("json")
			if name == "name" || name == "params" {
				continue // see below
			}
			after := stored(t, base)
			alter(reflect.ValueOf(&after.Tasks.Mixture[i]).Elem().Field(field))
			requireOne(t, base, after, MixtureKey+"."+spec.Name+"."+name)
		}
		for param := range spec.Params {
			compared++
			for _, value := range []any{"other", 77.5, true, nil, []any{"other"}} {
				after := stored(t, base)
				after.Tasks.Mixture[i].Params[param] = value
				requireOne(t, base, after, MixtureKey+"."+spec.Name+".params."+param)
			}
			after := stored(t, base)
			delete(after.Tasks.Mixture[i].Params, param)
			requireOne(t, base, after, MixtureKey+"."+spec.Name+".params."+param)
		}
		after := stored(t, base)
		after.Tasks.Mixture = slices.Delete(after.Tasks.Mixture, i, i+1)
		requireOne(t, base, after, MixtureKey+"."+spec.Name)
	}
	if compared == 0 || len(base.Tasks.Mixture) < 2 {
		t.Fatal("nothing was compared")
	}
	turned := stored(t, base)
	slices.Reverse(turned.Tasks.Mixture)
	requireOne(t, base, turned, MixtureKey+".order")
	twice := stored(t, base)
	twice.Tasks.Mixture = append(twice.Tasks.Mixture, twice.Tasks.Mixture[0])
	requireOne(t, base, twice, MixtureKey+"."+first+"[2]")
	empty := stored(t, base)
	for i := range empty.Tasks.Mixture {
		empty.Tasks.Mixture[i].Params = nil
	}
	none := stored(t, empty)
	for i := range none.Tasks.Mixture {
		none.Tasks.Mixture[i].Params = map[string]any{}
	}
	if got := Differences(empty, none); got != nil {
		t.Errorf("no parameters and an empty list of them: %v", got)
	}
}

func TestMembersAreComparedOneByOne(t *testing.T) {
	base := experiment(t)
	base.Models, base.Members = "nano,gpt2", []Member{{"nano", 1, 3e-4, 16}, {"gpt2", 1, 1e-5, 4}}
	for field := range reflect.TypeFor[Member]().NumField() {
		name := reflect.TypeFor[Member]().Field(field).Tag.Get("json")
		if name == "model" {
			continue // see below
		}
		after := stored(t, base)
		alter(reflect.ValueOf(&after.Members[1]).Elem().Field(field))
		requireOne(t, base, after, "members.gpt2."+name)
	}
	gone := stored(t, base)
	gone.Members = gone.Members[:1]
	requireOne(t, base, gone, "members.gpt2")
	turned := stored(t, base)
	slices.Reverse(turned.Members)
	requireOne(t, base, turned, "members.order")
}

// Two different values are shown with the part that differs, however long they are and wherever they differ.
func TestDifferentValuesAreShownDifferently(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "b", "/", "é", "\x1b", "\u202e", "\xff", `"`, "\\", strings.Repeat("long ", 30)})
		text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "") })
		common := text.Draw(t, "common")
		x, y := common+text.Draw(t, "x"), common+text.Draw(t, "y")
		before, after := Default(), Default()
		before.Model, after.Model = x, y
		before.Tasks.Mixture = []TaskSpec{{Name: "bf", Weight: 1, Params: map[string]any{"text": x, "list": []any{x}}}}
		after.Tasks.Mixture = []TaskSpec{{Name: "bf", Weight: 1, Params: map[string]any{"text": y, "list": []any{y}}}}
		got := Differences(before, after)
		want := 3
		if string([]rune(x)) == string([]rune(y)) { // equal when stored: each invalid byte is one U+FFFD
			want = min(len(got), 1)
		}
		if x == y {
			want = 0
		}
		if len(got) != want {
			t.Fatalf("%q and %q: %v", x, y, got)
		}
		for _, d := range got {
			if d.Before == d.After || strings.ContainsFunc(d.String(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q and %q: %v", x, y, d)
			}
			if n := max(len([]rune(d.Before)), len([]rune(d.After))); n > longestValue+2 {
				t.Fatalf("%d characters: %v", n, d)
			}
		}
	})
}

// A configuration that was stored before a key existed has the behavior of that time.
func TestAnOlderConfigurationHasNotChanged(t *testing.T) {
	c := experiment(t)
	c.ExternalCorrection, c.ExternalFilter, c.EvalDraws = CorrectionNone, FilterNone, DrawsShared // other defaults today
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"zero_advantage_filter", "external_advantage", "external_correction", "external_divergence", "external_filter", "external_filter_threshold", "external_lag", "split", "split_alpha", "split_ema", "split_every", "eval_draws"} {
		if _, known := fields[key]; !known {
			t.Fatalf("no key %s", key)
		}
		delete(fields, key)
	}
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	var old Config
	if err := json.Unmarshal(data, &old); err != nil {
		t.Fatal(err)
	}
	if got := Differences(old, c); got != nil {
		t.Errorf("differences %v", got)
	}
	c.ZeroAdvantageFilter = false
	if got := Changes(old, c); len(got) != 1 {
		t.Errorf("changes %v", got)
	}
	if back := stored(t, c); back.ZeroAdvantageFilter {
		t.Error("what is stored doesn't count")
	}
}
