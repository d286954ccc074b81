package terminal

import (
	tea "charm.land/bubbletea/v2"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// overview is the first page: the run, its nodes and its newest events.
type overview struct{}

func (overview) body(m *model, width, height int) []string {
	m.screen.width, m.screen.height = width, height
	m.screen.lines, m.screen.page, m.screen.join = m.events.last(shownLines), m.cfg.Page, m.cfg.Join
	return m.screen.render(m.styles)
}

func (overview) key(m *model, key string) tea.Cmd {
	switch key {
	case "up", "k":
		m.step(-1)
	case "down", "j":
		m.step(1)
	case "pgup", "ctrl+b":
		m.step(-max(1, m.screen.rows))
	case "pgdown", "ctrl+f", "space":
		m.step(max(1, m.screen.rows))
	case "home", "g":
		m.step(-len(m.screen.status.Nodes))
	case "end", "G":
		m.step(len(m.screen.status.Nodes))
	case "enter", "right":
		if node := m.chosen(); node != "" {
			return m.openNode(node)
		}
	case "e":
		m.openEvents()
	case "l":
		return m.openLog("")
	}
	return nil
}

func (overview) hints(m *model) []string {
	if m.cfg.Logs == nil {
		return []string{"enter node", "e events"}
	}
	return []string{"enter node", "l logs", "e events"}
}

// find moves to a node by name, state or cause of failure.
func (overview) find(m *model, query string, step int) bool {
	nodes := m.screen.status.Nodes
	for i := range nodes {
		way := i
		if step < 0 {
			way = -i
		}
		at := ((m.screen.cursor+step+way)%len(nodes) + len(nodes)) % len(nodes)
		n := nodes[at]
		if index(n.ID+" "+n.Worker+" "+n.State+" "+wording.Colons(n.Cause, n.Message), query) >= 0 {
			m.screen.cursor = at
			return true
		}
	}
	return false
}

func (overview) leave() {}
