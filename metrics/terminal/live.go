package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// framesPerSecond bounds the rate of terminal writes. A run changes slowly, and drawing takes CPU time from training.
const framesPerSecond = 5

const defaultWidth, defaultHeight = 80, 24

// Live shows the run on the whole terminal until the user leaves the view or ctx ends. The end of ctx is not an error.
func Live(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	return show(ctx, cfg.In, cfg.Out, cfg.Environ, func(ctx context.Context) tea.Model { return newModel(ctx, cfg) })
}

// show runs a bubbletea program until the user leaves it or ctx ends, which is not an error. start receives a context
// that ends with the view.
func show(ctx context.Context, in io.Reader, out io.Writer, environ []string, start func(context.Context) tea.Model) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(start(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environ),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler(), tea.WithFilter(knownSize))
	quit := make(chan struct{})
	go func() {
		defer close(quit)
		<-ctx.Done()
		program.Quit()
	}()
	_, err := program.Run()
	cancel()
	<-quit
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("live view: %w", err)
	}
	return nil
}

// knownSize replaces the size of terminals that report none, as in notebooks and on serial lines.
func knownSize(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok && (size.Width <= 0 || size.Height <= 0) {
		return tea.WindowSizeMsg{Width: defaultWidth, Height: defaultHeight}
	}
	return msg
}

type tickMsg struct{}

type statusMsg struct {
	status stats.Status
	err    error
	took   time.Duration
}

// page is a full-screen page of the live view.
type page interface {
	// body draws the page in at most height lines of at most width cells.
	body(m *model, width, height int) []string
	// key handles a key that is specific to this page.
	key(m *model, key string) tea.Cmd
	// hints lists the page's keys for the foot, most useful first.
	hints(m *model) []string
	// find moves to a match of query: step 1 to the next, -1 to the previous, 0 to the current or next. It returns
	// false if there is no match.
	find(m *model, query string, step int) bool
	// leave stops what the page started.
	leave()
}

// model is the state of the live view. It draws its frame after each change, not on each request.
type model struct {
	ctx    context.Context //nolint:containedctx // bubbletea's commands take none
	cfg    Config
	styles styles
	ascii  bool // the terminal supports only ASCII

	screen screen // the run; its size is the terminal's without the foot
	events *book
	pages  []page // stack of opened pages; the last one is shown
	search search

	width, height int
	trouble       string // error of the last poll; empty: none
	seen          int    // lines read from the feed
	asking        bool   // the confirmation after q is shown
	asked         int    // number of stop requests
	frame         string
}

func newModel(ctx context.Context, cfg Config) *model {
	m := &model{
		ctx: ctx, cfg: cfg, styles: newStyles(!charset.NoColor(cfg.Environ)), ascii: charset.ASCIIOnly(cfg.Environ), events: newBook(feedLength),
		pages: []page{overview{}}, width: defaultWidth, height: defaultHeight,
	}
	m.draw()
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.poll }

func (m *model) poll() tea.Msg {
	began := time.Now()
	status, err := m.cfg.Poll(m.ctx)
	return statusMsg{cleanStatus(status), err, time.Since(began)}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		next = m.key(msg.String(), msg.Text)
	case tickMsg:
		return m, m.poll
	case statusMsg:
		m.polled(msg)
		next = tea.Tick(pause(m.cfg.Interval, msg.took), func(time.Time) tea.Msg { return tickMsg{} })
	case bookMsg:
		next = m.written(msg)
	case logsMsg:
		m.logged(msg)
	case historyMsg:
		next = m.remembered(msg)
	case historyTick:
		return m, m.remember(msg.page)
	default:
		return m, nil
	}
	m.draw()
	return m, next
}

func (m *model) polled(msg statusMsg) {
	m.trouble = ""
	if msg.err != nil {
		m.trouble = noNews(msg.err)
	} else {
		chosen := m.chosen()
		m.screen.status, m.screen.known = msg.status, true
		m.choose(chosen)
	}
	var lines []feedLine
	lines, m.seen = m.cfg.Feed.since(m.seen)
	for _, l := range lines {
		m.events.add(l.stamped(m.cfg.Location))
	}
}

// chosen returns the node at the cursor, or an empty text without nodes.
func (m *model) chosen() string {
	if nodes := m.screen.status.Nodes; m.screen.cursor >= 0 && m.screen.cursor < len(nodes) {
		return nodes[m.screen.cursor].ID
	}
	return ""
}

// choose moves the cursor to a node, if it exists.
func (m *model) choose(id string) {
	for i, n := range m.screen.status.Nodes {
		if n.ID == id {
			m.screen.cursor = i
			return
		}
	}
	m.step(0)
}

// step moves the cursor by a number of nodes, within the list.
func (m *model) step(by int) {
	m.screen.cursor = max(0, min(m.screen.cursor+by, len(m.screen.status.Nodes)-1))
}

func (m *model) shown() page { return m.pages[len(m.pages)-1] }

func (m *model) draw() {
	foot := m.foot(m.width)
	body := m.shown().body(m, m.width, m.height-len(foot))
	if m.height >= tight && len(body)+len(foot) < m.height {
		foot = append([]string{""}, foot...)
	}
	m.frame = strings.Join(fitted(append(body, foot...), m.width, m.height), "\n")
	if m.ascii {
		m.frame = charset.Cells(m.frame)
	}
}

// View implements tea.Model. It does not capture the mouse, so that users can select text. Most terminals translate the
// wheel into arrow keys.
func (m *model) View() tea.View {
	v := tea.NewView(m.frame)
	v.AltScreen = true
	v.DisableBracketedPasteMode = true
	return v
}
