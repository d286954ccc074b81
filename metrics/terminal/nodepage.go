package terminal

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// nodePage shows a node with its rewards, memory, events and the end of its log.
type nodePage struct {
	id   string
	ctx  context.Context //nolint:containedctx // ends with the page
	stop context.CancelFunc

	log        *book // nil: logs are not available
	logTrouble string
	history    NodeHistory
	events     []string // texts of the events in history
	trouble    string   // why the history is unknown
}

const (
	tailLength   = 200             // log lines kept per page
	historyEvery = 2 * time.Second // minimum interval between reads
	chartRows    = 9               // maximum, including the caption
	nodeEvents   = 4               // maximum
	leastChart   = 3
)

type historyMsg struct {
	page    *nodePage
	history NodeHistory
	err     error
	took    time.Duration
}

type historyTick struct{ page *nodePage }

// openNode opens a node's page. It replaces the page of another node.
func (m *model) openNode(id string) tea.Cmd {
	if _, ok := m.shown().(*nodePage); ok {
		m.back()
	}
	p := &nodePage{id: id}
	p.ctx, p.stop = context.WithCancel(m.ctx)
	m.open(p)
	cmds := []tea.Cmd{m.remember(p)}
	if m.cfg.Logs != nil {
		p.log = newBook(tailLength)
		cmds = append(cmds, m.tail(p.ctx, p.log, id, tailLength/2))
	}
	return tea.Batch(cmds...)
}

// remember reads a node's history, unless its page was closed.
func (m *model) remember(p *nodePage) tea.Cmd {
	if m.cfg.History == nil || p.ctx.Err() != nil {
		return nil
	}
	return func() tea.Msg {
		began := time.Now()
		history, err := m.cfg.History(p.ctx, p.id)
		return historyMsg{p, history, err, time.Since(began)}
	}
}

// remembered stores a history and schedules the next read.
func (m *model) remembered(msg historyMsg) tea.Cmd {
	p := msg.page
	if p.ctx.Err() != nil {
		return nil
	}
	p.trouble = ""
	if msg.err != nil {
		p.trouble = noNews(msg.err)
	} else {
		p.history = msg.history
		p.events = p.events[:0]
		for _, e := range msg.history.Events {
			if text := wording.Event(e); text != "" {
				p.events = append(p.events, feedLine{e.Time, text}.stamped(m.cfg.Location))
			}
		}
	}
	return tea.Tick(pause(max(historyEvery, m.cfg.Interval), msg.took), func(time.Time) tea.Msg { return historyTick{p} })
}

// written redraws and waits for more lines, unless the page was closed.
func (m *model) written(msg bookMsg) tea.Cmd {
	if msg.ctx.Err() != nil {
		return nil
	}
	return await(msg.ctx, msg.book, logsEvery)
}

func (p *nodePage) body(m *model, width, height int) []string {
	st := m.styles
	at := slices.IndexFunc(m.screen.status.Nodes, func(n stats.NodeStatus) bool { return n.ID == p.id })
	if at < 0 {
		return fitted([]string{st.title.Render(p.id), "the run no longer has this node"}, width, height)
	}
	out := p.facts(st, m.screen.status, m.screen.status.Nodes[at], width)
	gap := 0
	if height >= roomy-2 {
		gap = 1
	}
	section := func(lines []string) {
		if len(lines) > 0 {
			out = append(append(out, make([]string, gap)...), lines...)
		}
	}
	events := p.events[max(0, len(p.events)-nodeEvents):]
	if height < roomy {
		events = events[max(0, len(events)-1):]
	}
	room := height - len(out) - 2*gap - len(events) - min(len(events), gap)
	if rows := min(chartRows, room/2); rows >= leastChart && len(p.history.Rewards) > 0 {
		section(rewardChart(st, p.history.First, p.history.Rewards, width, rows))
	}
	section(events)
	section(p.logLines(st, height-len(out)-gap))
	return fitted(out, width, height)
}

// logLines returns the newest lines of the log, at most room lines with the caption.
func (p *nodePage) logLines(st styles, room int) []string {
	switch {
	case p.log == nil || room < 2:
		return nil
	case p.logTrouble != "":
		return []string{st.bad.Render("log: " + p.logTrouble)}
	}
	lines := p.log.last(room - 1)
	if len(lines) == 0 {
		return nil
	}
	return append([]string{st.faint.Render("log")}, lines...)
}

func (p *nodePage) key(m *model, key string) tea.Cmd {
	step := 0
	switch key {
	case "left", "up", "k", "h":
		step = -1
	case "right", "down", "j":
		step = 1
	case "l", "enter":
		return m.openLog(p.id)
	case "e":
		m.openEvents()
	}
	if step == 0 {
		return nil
	}
	m.choose(p.id)
	m.step(step)
	if node := m.chosen(); node != "" && node != p.id {
		return m.openNode(node)
	}
	return nil
}

func (p *nodePage) hints(m *model) []string {
	if m.cfg.Logs == nil {
		return []string{"←→ other node"}
	}
	return []string{"←→ other node", "l log", "/ search it"}
}

// find is never called: a search on this page searches the node's log.
func (p *nodePage) find(*model, string, int) bool { return false }

func (p *nodePage) leave() { p.stop() }
