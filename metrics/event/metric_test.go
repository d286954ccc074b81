package event

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// figures returns the JSON names of Round's figures in order: all fields except the key, the lists and non_finite.
func figures() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Round]()) {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name {
		case "round", "non_finite", "tasks", "peers":
		default:
			names = append(names, name)
		}
	}
	return names
}

// Every figure of a Round has one row with its name, and the row's pointer addresses that field.
func TestEveryFigureOfARoundIsOneRow(t *testing.T) {
	if got, want := MetricNames(), figures(); !slices.Equal(got, want) {
		t.Fatalf("metrics %v, fields %v", got, want)
	}
	var r Round
	for i, f := range reflect.VisibleFields(reflect.TypeFor[Round]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		m, ok := MetricNamed(name)
		if !ok {
			continue
		}
		field := reflect.ValueOf(&r).Elem().FieldByIndex(f.Index)
		want := float64(i)
		if field.Kind() == reflect.Bool {
			want = 1
		}
		m.SetNumber(&r, want)
		if got := m.Number(&r); got != want || field.IsZero() {
			t.Errorf("%s: set to %v, reads %v, field %v", name, want, got, field)
		}
		if optional := field.Kind() == reflect.Pointer; optional != m.Optional {
			t.Errorf("%s: optional is %v, its field is a %s", name, m.Optional, field.Type())
		}
	}
	for _, m := range Metrics() {
		if v := m.Value(&r); (v == nil) != m.Training { // generate_only is set
			t.Errorf("%s of a round without training: %v", m.Name, v)
		}
	}
	r.GenerateOnly = false
	for _, m := range Metrics() {
		if v := m.Value(&r); v == nil || fmt.Sprint(v) != fmt.Sprint(m.Number(&r)) && reflect.TypeOf(v).Kind() != reflect.Bool {
			t.Errorf("%s: value %v, number %v", m.Name, v, m.Number(&r))
		}
	}
	for _, name := range []string{"split_own", "split_external", "sampling_logp_difference_max"} {
		if m, _ := MetricNamed(name); m.Value(&Round{}) != nil {
			t.Errorf("%s of a round without one: %v", name, m.Value(&Round{}))
		}
	}
}

// docs/METRICS.md has one row for each metric, in the table's order, and lists the metrics that only training rounds
// have.
func TestTheMetricsPageIsTheTable(t *testing.T) {
	data, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	at := 0
	for _, m := range Metrics() {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", m.Name, m.Unit, m.Meaning)
		if m.Unit == UnitNone {
			row = fmt.Sprintf("| `%s` | | %s |\n", m.Name, m.Meaning)
		}
		i := strings.Index(page, row)
		if i < at {
			t.Errorf("docs/METRICS.md, table `rounds`, needs in this place:\n%s", row)
			continue
		}
		at = i
	}
	_, training, _ := strings.Cut(page, "training metrics are NULL (")
	training, _, _ = strings.Cut(training, ")")
	var got, want []string
	for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(training, -1) {
		got = append(got, name[1])
	}
	for _, m := range Metrics() {
		if m.Training {
			want = append(want, m.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/METRICS.md says of training rounds alone %v, the table %v", got, want)
	}
}

// The Python reporter for trainers accepts the same figures, each with the same kind.
func TestTheTrainersReportHasTheTablesMetrics(t *testing.T) {
	data, err := os.ReadFile("../../notebooks-bridge/swarm_bridge/report.py")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, m := range Metrics() {
		kind := "MEASURED"
		switch {
		case m.Optional:
			kind = "OPTIONAL"
		case m.Unit == UnitFlag:
			kind = "FLAGS"
		case !m.Real():
			kind = "COUNTS"
		case m.Unit == UnitSeconds:
			kind = "SECONDS"
		case m.Unit == UnitRounds:
			kind = "ROUNDS"
		}
		want[kind] = append(want[kind], m.Name)
	}
	got := map[string][]string{}
	for _, group := range regexp.MustCompile(`(?ms)^([A-Z]+) = \((.*?)\)`).FindAllStringSubmatch(string(data), -1) {
		if group[1] == "LISTS" {
			continue
		}
		for _, name := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(group[2], -1) {
			got[group[1]] = append(got[group[1]], name[1])
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("report.py has\n%v\nthe table\n%v", got, want)
	}
}
