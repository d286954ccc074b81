package configs

import (
	"slices"
	"testing"
)

func TestTasksOfTakesTurns(t *testing.T) {
	var c Config
	if got := c.TasksOf("node_0"); got != nil {
		t.Errorf("without nodes.tasks: %v, want all", got)
	}
	c.Nodes.Tasks = "bf+arc_1d, base_conversion"
	for node, want := range map[string][]string{
		"node_0": {"bf", "arc_1d"}, "node_1": {"base_conversion"}, "node_2": {"bf", "arc_1d"}, "node_7": {"base_conversion"},
	} {
		if got := c.TasksOf(node); !slices.Equal(got, want) {
			t.Errorf("%s draws %v, want %v", node, got, want)
		}
	}
	if first, again := c.TasksOf("anna"), c.TasksOf("anna"); first == nil || !slices.Equal(first, again) {
		t.Errorf("anna draws %v, then %v", first, again)
	}
	places := map[string]bool{}
	for _, node := range []string{"anna", "bert", "carl", "dora", "emil", "node_01", "node_-1", "node_x"} {
		places[c.TasksOf(node)[0]] = true
	}
	if len(places) != 2 {
		t.Errorf("eight other names take the places %v, want both", places)
	}
}

// A swarm needs a node that trains.
func TestTeachersAreFewerThanNodes(t *testing.T) {
	c := Config{Nodes: NodeSettings{GenerateOnly: 2}}
	for nodes, ok := range map[int]bool{0: true, 1: false, 2: false, 3: true} {
		if err := c.CheckTeachers(nodes); (err == nil) != ok {
			t.Errorf("%d nodes with 2 teachers: %v", nodes, err)
		}
	}
}

func TestNodeTasksAreChecked(t *testing.T) {
	for _, text := range []string{",", "bf,", "bf+", "bf+bf", "nonsense", "bf;arc_1d", "+bf"} {
		if _, err := ParseNodeTasks(text); err == nil {
			t.Errorf("ParseNodeTasks(%q) succeeds", text)
		}
	}
	mixture := []TaskSpec{{Name: "bf", Weight: 1}}
	for name, c := range map[string]Config{
		"a task that the mixture lacks": {Nodes: NodeSettings{Tasks: "bf,arc_1d"}, Tasks: Tasks{Mixture: mixture}},
		"a file of questions":           {Nodes: NodeSettings{Tasks: "bf"}, Tasks: Tasks{File: "/questions.jsonl"}},
	} {
		if err := validateNodeTasks(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := validateNodeTasks(Config{Nodes: NodeSettings{Tasks: "bf"}, Tasks: Tasks{Mixture: mixture}}); err != nil {
		t.Errorf("bf of a mixture of bf: %v", err)
	}
}
