package configs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// stored is a configuration as it comes back from the database.
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

// Every key is either the experiment's or operational: one that is added must be thought about, and counts as the experiment's.
func TestEveryKeyIsComparedOrOperational(t *testing.T) {
	for _, key := range AllKeys() {
		if key.Name == MixtureKey {
			continue
		}
		c := experiment(t)
		changed := c
		field := reflect.ValueOf(&changed).Elem()
		for part := range strings.SplitSeq(key.Name, ".") {
			for i := range field.NumField() {
				if field.Type().Field(i).Tag.Get("mapstructure") == part {
					field = field.Field(i)
					break
				}
			}
		}
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
		got := Changes(stored(t, c), changed)
		switch {
		case operational[key.Name] && got != nil:
			t.Errorf("%s: %v", key.Name, got)
		case !operational[key.Name] && (len(got) != 1 || got[0].Key != key.Name || got[0].Before == got[0].After):
			t.Errorf("%s: %v", key.Name, got)
		}
	}
	for key := range operational {
		if _, err := FindKey(key); err != nil {
			t.Errorf("operational key %s: %v", key, err)
		}
	}
}

func TestAnotherMixtureIsAnotherExperiment(t *testing.T) {
	c := experiment(t)
	heavier := stored(t, c)
	heavier.Tasks.Mixture[0].Weight *= 2
	fewer := stored(t, c)
	fewer.Tasks.Mixture = fewer.Tasks.Mixture[1:]
	harder := stored(t, c)
	for name := range harder.Tasks.Mixture[0].Params {
		harder.Tasks.Mixture[0].Params[name] = 77
	}
	for name, other := range map[string]Config{"weight": heavier, "task": fewer, "parameter": harder} {
		if got := Changes(c, other); len(got) != 1 || got[0].Key != MixtureKey {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A configuration that was stored before a key was there has what was in effect then.
func TestAnOlderConfigurationHasNotChanged(t *testing.T) {
	c := experiment(t)
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"zero_advantage_filter", "external_advantage", "external_correction", "external_lag", "split", "split_alpha", "split_ema", "split_every"} {
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
	if got := Changes(old, c); got != nil {
		t.Errorf("changes %v", got)
	}
	c.ZeroAdvantageFilter = false
	if got := Changes(old, c); len(got) != 1 {
		t.Errorf("changes %v", got)
	}
	if back := stored(t, c); back.ZeroAdvantageFilter {
		t.Error("what is stored doesn't count")
	}
}
