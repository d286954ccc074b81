package terminal

import (
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// key handles a key press. text is the text that the key types.
func (m *model) key(key, text string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		return m.interrupt()
	case m.asking:
		m.answer(key)
		return nil
	case m.search.typing:
		if done, kept := m.search.typed(key, text); done && kept {
			m.search.failed = !m.shown().find(m, m.search.query, 0)
		}
		return nil
	}
	switch key {
	case "q":
		return m.quit()
	case "?", "f1":
		if !m.helping() {
			m.open(newHelp())
		}
	case "esc", "backspace":
		m.search = search{}
		m.back()
	case "/":
		var next tea.Cmd
		if n, ok := m.shown().(*nodePage); ok {
			next = m.openLog(n.id)
		}
		m.search = search{typing: true}
		return next
	case "n", "N":
		step := 1
		if key == "N" {
			step = -1
		}
		m.search.failed = m.search.query != "" && !m.shown().find(m, m.search.query, step)
	default:
		return m.shown().key(m, key)
	}
	return nil
}

func (m *model) helping() bool {
	p, ok := m.shown().(*pager)
	return ok && p.book == helpBook
}

func (m *model) open(p page) {
	m.search = search{}
	m.pages = append(m.pages, p)
}

// back closes the current page and shows the page from which it was opened.
func (m *model) back() {
	if len(m.pages) > 1 {
		m.shown().leave()
		m.pages = m.pages[:len(m.pages)-1]
	}
}

// interrupt handles ctrl+c. A view that does not control the run is closed. Otherwise the run shuts down gracefully, or
// immediately after a second ctrl+c.
func (m *model) interrupt() tea.Cmd {
	m.asking = false
	if m.cfg.Interrupt == nil {
		return tea.Quit
	}
	m.asked++
	if m.asked <= 2 {
		m.cfg.Interrupt(m.asked == 2)
	}
	return nil
}

// quit handles q. A view that does not control the run is closed. Otherwise the view asks for confirmation.
func (m *model) quit() tea.Cmd {
	if m.cfg.Interrupt == nil {
		return tea.Quit
	}
	m.asking = m.asked == 0
	return nil
}

// answer handles the key after q.
func (m *model) answer(key string) {
	switch key {
	case "s":
		m.interrupt()
	case "esc", "n", "backspace":
		m.asking = false
	}
}

// foot returns the lines with the current problem, the available keys, and the typed input.
func (m *model) foot(width int) []string {
	var out []string
	if m.trouble != "" {
		out = append(out, m.styles.bad.Render(m.trouble))
	}
	switch {
	case m.asking:
		question := "s stop after a checkpoint · esc train on"
		if ansi.StringWidth(question) > width {
			question = "s stop · esc"
		}
		out = append(out, m.styles.title.Render(question))
		if m.height >= tight {
			out = append(out, hints(width, "this run ends with this terminal", "use --detach to keep a run going"))
		}
	case m.asked == 1:
		out = append(out, m.styles.title.Render(hints(width, "stopping: nodes finish their step and checkpoint", "ctrl+c stop now")))
	case m.asked > 1:
		out = append(out, m.styles.title.Render("stopping now"))
	case m.search.typing:
		out = append(out, ansi.TruncateLeft("/"+m.search.draft+"_", max(0, ansi.StringWidth(m.search.draft)+2-width), ""))
	case m.search.failed:
		out = append(out, m.styles.bad.Render("not found: "+m.search.query))
	default:
		out = append(out, m.styles.faint.Render(m.hints(width)))
	}
	return out
}

func (m *model) hints(width int) string {
	first := "q stop …"
	if m.cfg.Interrupt == nil {
		first = "q leave (the run continues)"
	}
	all := append([]string{first, "? help"}, m.shown().hints(m)...)
	if len(m.pages) > 1 {
		all = append([]string{"esc back"}, m.shown().hints(m)...)
		if !m.helping() {
			all = append(all, "? help")
		}
		all = append(all, first)
	}
	line := hints(width, all...)
	if len(m.pages) == 1 && ansi.StringWidth(first+" · ? help") > width {
		return hints(width, "q leave", "? help")
	}
	return line
}

// hints joins as many parts as fit width cells with middle dots. The first part is always included.
func hints(width int, parts ...string) string {
	line := parts[0]
	for _, p := range parts[1:] {
		if ansi.StringWidth(line)+3+ansi.StringWidth(p) > width {
			break
		}
		line += " · " + p
	}
	return line
}
