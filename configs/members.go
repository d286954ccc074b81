package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Member is one model of a mixed swarm, with the settings that depend on the model: Adam's rate and the size of a
// forward pass. All other settings are the experiment's. Their defaults come from the first model.
type Member struct {
	Model        string  `json:"model"` // in the form of Config.Model
	Nodes        int     `json:"nodes"` // consecutive nodes with this model, until the next model's turn
	LearningRate float64 `json:"learning_rate"`
	MicroBatch   int     `json:"micro_batch"`
}

const (
	modelsAllowed = "models in turn, such as nano,micro, or with the number of nodes of each, such as nano=4,micro=4"
	maxMembers    = 64
)

// ParseMembers parses Config.Models: names or folders separated by commas, each with an optional "=" and a number of
// nodes (default 1). A folder whose path contains a comma or ends in "=" and digits can't be given. A mistake is an
// *Error. LearningRate and MicroBatch stay unset.
func ParseMembers(text string) ([]Member, error) {
	refuse := &Error{Key: "models", Value: text, Allowed: modelsAllowed}
	var list []Member
	for item := range strings.SplitSeq(text, ",") {
		m := Member{Model: strings.TrimSpace(item), Nodes: 1}
		if at := strings.LastIndexByte(item, '='); at >= 0 {
			var err error
			m.Model = strings.TrimSpace(item[:at])
			if m.Nodes, err = strconv.Atoi(strings.TrimSpace(item[at+1:])); err != nil || m.Nodes < 1 || m.Nodes > 1000 {
				return nil, refuse
			}
		}
		if m.Model == "" || strings.ContainsFunc(m.Model, isControl) || len(list) == maxMembers {
			return nil, refuse
		}
		list = append(list, m)
	}
	return list, nil
}

func parses(models string) bool {
	_, err := ParseMembers(models)
	return err == nil
}

// MembersText formats members as Config.Models, with counts if text has any.
func MembersText(text string, members []Member) string {
	var items []string
	for _, m := range members {
		item := m.Model
		if strings.Contains(text, "=") {
			item += "=" + strconv.Itoa(m.Nodes)
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

// member returns the Member of the node with an index from 0. The models take turns, each for its number of nodes,
// and the cycle repeats if there are more nodes.
func (c Config) member(node int) Member {
	turn := 0
	for _, m := range c.Members {
		turn += m.Nodes
	}
	if turn == 0 {
		return Member{c.Model, 1, c.LearningRate, c.MicroBatch}
	}
	at := node % turn
	for _, m := range c.Members {
		if at < m.Nodes {
			return m
		}
		at -= m.Nodes
	}
	return c.Members[0] // unreachable: at is below the sum of the members' nodes
}

// ModelOf returns the model of the node with an index from 0, however many nodes there are: a name or folder, in the
// form of Config.Model.
func (c Config) ModelOf(node int) string { return c.member(node).Model }

// OfNode returns the configuration of the node with an index from 0: one model, with that model's own keys.
func (c Config) OfNode(node int) Config {
	if len(c.Members) == 0 {
		return c
	}
	m := c.member(node)
	c.Model, c.LearningRate, c.MicroBatch = m.Model, m.LearningRate, m.MicroBatch
	c.Models, c.Members = "", nil
	return c
}

// LargestMicroBatch returns the maximum sequences per forward pass of any node, 0 for all. Memory is planned for it.
func (c Config) LargestMicroBatch() int {
	most := c.MicroBatch
	for i, m := range c.Members {
		if i == 0 || m.MicroBatch == 0 || most > 0 && m.MicroBatch > most {
			most = m.MicroBatch
		}
	}
	return most
}

// LimitMicroBatch limits the sequences per forward pass of every node to most.
func (c Config) LimitMicroBatch(most int) Config {
	limit := func(n int) int {
		if n == 0 {
			return most
		}
		return min(n, most)
	}
	c.MicroBatch, c.Members = limit(c.MicroBatch), slices.Clone(c.Members)
	for i := range c.Members {
		c.Members[i].MicroBatch = limit(c.Members[i].MicroBatch)
	}
	return c
}

// CheckNodes refuses a number of nodes that is not a multiple of the sum of the models' counts. Models without counts
// allow any number.
func (c Config) CheckNodes(nodes int) error {
	turn := 0
	for _, m := range c.Members {
		turn += m.Nodes
	}
	if turn == 0 || !strings.Contains(c.Models, "=") || nodes%turn == 0 {
		return nil
	}
	return &Error{Key: "models", Value: c.Models, Remedy: fmt.Sprintf("its counts sum to %d, but the swarm has %s. Try: --nodes %d, or other counts",
		turn, units.Plural(nodes, "node"), turn)}
}
