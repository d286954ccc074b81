package configs

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// NodeSettings are the settings in which the nodes of a swarm may differ.
type NodeSettings struct {
	Tasks        string `mapstructure:"tasks" yaml:"tasks,omitempty" json:"tasks,omitempty"`                         // the tasks each node draws, in turn, such as bf+arc_1d,base_conversion; empty: all tasks
	GenerateOnly int    `mapstructure:"generate_only" yaml:"generate_only,omitempty" json:"generate_only,omitempty"` // nodes of the coordinator's host, from node_0 on, that share rollouts and do not train
}

const (
	nodeTasksAllowed = "tasks in turn, such as bf+arc_1d,base_conversion: the first node draws bf and arc_1d, the second base_conversion"
	maxNodeTasks     = 1000 // nodes
)

// ParseNodeTasks parses NodeSettings.Tasks: one list of task names per node, separated by commas, with "+" between the
// names. Empty text gives nil. A mistake is an *Error.
func ParseNodeTasks(text string) ([][]string, error) {
	if text == "" {
		return nil, nil
	}
	refuse := &Error{Key: NodeTasksKey, Value: text, Allowed: nodeTasksAllowed}
	var lists [][]string
	for item := range strings.SplitSeq(text, ",") {
		var names []string
		for name := range strings.SplitSeq(item, "+") {
			name = strings.TrimSpace(name)
			if !slices.Contains(taskNames(), name) || slices.Contains(names, name) {
				return nil, refuse
			}
			names = append(names, name)
		}
		if lists = append(lists, names); len(lists) > maxNodeTasks {
			return nil, refuse
		}
	}
	return lists, nil
}

// NodeTasksKey is the key of NodeSettings.Tasks.
const NodeTasksKey = "nodes.tasks"

// TasksOf returns the tasks that a node draws its own questions from, nil for all of the mixture. It depends on nothing
// but the configuration and the node's name, so that each node knows every other node's questions. node_K takes place
// K of the list, and the list repeats. A node with another name takes a place by the hash of its name.
func (c Config) TasksOf(node string) []string {
	lists, err := ParseNodeTasks(c.Nodes.Tasks)
	if err != nil || len(lists) == 0 {
		return nil
	}
	place, numbered := nodeIndex(node)
	if !numbered {
		h := fnv.New32a()
		_, _ = h.Write([]byte(node)) // a hash's Write never fails
		place = int(h.Sum32() % uint32(len(lists)))
	}
	return lists[place%len(lists)]
}

// validateNodeTasks checks that the mixture has every task that a node draws.
func validateNodeTasks(c Config) error {
	lists, err := ParseNodeTasks(c.Nodes.Tasks)
	if err != nil || lists == nil {
		return err
	}
	if c.Tasks.File != "" {
		return &Error{Key: NodeTasksKey, Value: c.Nodes.Tasks, Allowed: "none with tasks.file: the file's questions belong to no task"}
	}
	var known []string
	for _, t := range c.Tasks.Mixture {
		known = append(known, t.Name)
	}
	for _, names := range lists {
		for _, name := range names {
			if !slices.Contains(known, name) {
				return &Error{Key: NodeTasksKey, Value: name, Allowed: fmt.Sprintf("tasks of %s: %s", MixtureKey, strings.Join(known, ", "))}
			}
		}
	}
	return nil
}

// CheckTeachers refuses a number of nodes on the coordinator's host if all of them would be teachers.
func (c Config) CheckTeachers(nodes int) error {
	teachers := c.Nodes.GenerateOnly
	if teachers == 0 || nodes == 0 || nodes > teachers {
		return nil
	}
	return &Error{Key: "nodes.generate_only", Value: strconv.Itoa(teachers), Remedy: fmt.Sprintf("the swarm has %s, so no node would train. Try: --nodes %d, or fewer teachers",
		units.Plural(nodes, "node"), teachers+1)}
}

// NodeIndex returns the index in the name of a host's own node, such as 3 for node_3. It returns 0 for any other name.
func NodeIndex(name string) int {
	index, _ := nodeIndex(name)
	return index
}

func nodeIndex(name string) (int, bool) {
	digits, numbered := strings.CutPrefix(name, "node_")
	index, err := strconv.Atoi(digits)
	if !numbered || err != nil || index < 0 || strconv.Itoa(index) != digits {
		return 0, false
	}
	return index, true
}
