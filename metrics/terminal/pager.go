package terminal

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// pager is a page of lines to scroll through. Lines may still be added.
type pager struct {
	title  string
	book   *book
	grows  bool               // lines may be added
	stop   context.CancelFunc // stops the writer; nil: there is none, or it belongs to another page
	status string             // why no more lines are added

	top    int  // number of the first line shown
	follow bool // shows the newest lines
	shift  int  // cells scrolled off at the left
	found  int  // number of the line that the search found
	width  int  // of the last frame
	rows   int
}

func (m *model) openEvents() {
	m.open(&pager{title: "events", book: m.events, grows: true, follow: true})
}

func (p *pager) body(m *model, width, height int) []string {
	var out []string
	p.width, p.rows = width, max(1, height)
	if height >= tight-2 {
		p.rows = height - 2
	}
	p.settle()
	first, end := p.book.span()
	if p.rows < height {
		out = append(out, m.styles.title.Render(p.title)+m.styles.faint.Render("  "+p.where(first, end)), "")
	}
	for _, line := range p.book.read(p.top, p.top+p.rows) {
		text := ansi.Cut(line, p.shift, p.shift+width)
		if p.shift == 0 {
			text = ansi.Truncate(line, width, "…")
		}
		out = append(out, mark(text, m.search.query, m.styles.mark.Render))
	}
	if first == end {
		out = append(out, m.styles.faint.Render("no lines yet"))
	}
	return out
}

// settle keeps the visible part within the stored lines. When following, it moves to the newest line.
func (p *pager) settle() {
	first, end := p.book.span()
	last := max(first, end-p.rows)
	if p.follow {
		p.top = last
	}
	p.top = max(first, min(p.top, last))
}

func (p *pager) where(first, end int) string {
	where := ""
	if first < end {
		where = fmt.Sprintf("%d–%d of %d", min(p.top+1, end)-first, min(p.top+p.rows, end)-first, end-first)
	}
	following := ""
	if p.follow && p.grows {
		following = "following"
	}
	return wording.Dotted(where, following, p.status)
}

func (p *pager) key(_ *model, key string) tea.Cmd {
	switch key {
	case "up", "k":
		p.scroll(-1)
	case "down", "j", "enter":
		p.scroll(1)
	case "pgup", "ctrl+b", "b":
		p.scroll(-p.rows)
	case "pgdown", "ctrl+f", "space":
		p.scroll(p.rows)
	case "home", "g":
		p.top, p.follow = 0, false
	case "end", "G":
		p.follow = true
	case "f":
		p.follow = !p.follow
	case "right":
		p.shift += max(1, p.width/2)
	case "left":
		p.shift = max(0, p.shift-max(1, p.width/2))
	}
	return nil
}

// scroll moves by a number of lines. Scrolling down to the newest line resumes following.
func (p *pager) scroll(by int) {
	p.settle()
	p.top, p.follow = p.top+by, false
	p.settle()
	_, end := p.book.span()
	p.follow = by > 0 && p.top+p.rows >= end
}

func (p *pager) hints(*model) []string {
	return []string{"↑↓ scroll", "/ search", "n next", "f follow"}
}

// find moves to the next match and puts it at the top, or as close as possible.
func (p *pager) find(_ *model, query string, step int) bool {
	p.settle()
	from := p.found + step
	if step == 0 {
		from, step = p.top, 1
	}
	at := p.book.find(query, from, step)
	if at < 0 {
		return false
	}
	p.top, p.found, p.follow = at, at, false
	return true
}

func (p *pager) leave() {
	if p.stop != nil {
		p.stop()
	}
}
