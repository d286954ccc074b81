package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// framesPerSecond bounds how often the terminal is written to: a run changes slowly, and the GPU's host has better to do.
const framesPerSecond = 5

const defaultWidth, defaultHeight = 80, 24

// Live shows the run in the whole terminal until ctx ends, which is no error, or until the view is left by key.
func Live(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	return show(ctx, cfg.In, cfg.Out, cfg.Environ, func(ctx context.Context) tea.Model { return newModel(ctx, cfg) })
}

// show runs a program of bubbletea's until ctx ends, which is no error, or until it is left by key. What makes the model gets a
// context that ends with the view.
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

// knownSize stands in for terminals that report no size, as those of notebooks and serial lines do.
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
}

// model is the live view's state. Its frame is drawn when something changed, not whenever it is asked for.
type model struct {
	ctx    context.Context //nolint:containedctx // bubbletea's commands take none
	cfg    Config
	styles styles
	screen screen
	seen   int // lines taken from the feed
	asked  int // how often a stop was asked for
	frame  string
}

func newModel(ctx context.Context, cfg Config) *model {
	m := &model{ctx: ctx, cfg: cfg, styles: newStyles(!noColor(cfg.Environ))}
	m.screen.width, m.screen.height = defaultWidth, defaultHeight
	m.draw()
	return m
}

// noColor follows no-color.org: set and not empty.
func noColor(environ []string) bool {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, "NO_COLOR="); ok {
			return v != ""
		}
	}
	return false
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.poll }

func (m *model) poll() tea.Msg {
	status, err := m.cfg.Poll(m.ctx)
	return statusMsg{status, err}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.width, m.screen.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if cmd := m.key(msg.String()); cmd != nil {
			return m, cmd
		}
	case tickMsg:
		return m, m.poll
	case statusMsg:
		m.polled(msg)
		m.draw()
		return m, tea.Tick(m.cfg.Interval, func(time.Time) tea.Msg { return tickMsg{} })
	default:
		return m, nil
	}
	m.draw()
	return m, nil
}

func (m *model) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
	default:
		return nil
	}
	if m.cfg.Interrupt == nil {
		return tea.Quit
	}
	m.asked++
	switch {
	case m.asked == 1:
		m.cfg.Interrupt(false)
	case m.asked == 2 && key == "q":
		m.asked = 1 // a second q is a slip; only ctrl+c throws work away
	case m.asked == 2:
		m.cfg.Interrupt(true)
	}
	return nil
}

func (m *model) polled(msg statusMsg) {
	m.screen.trouble = ""
	if msg.err != nil {
		m.screen.trouble = "no news: " + strings.Join(strings.Fields(msg.err.Error()), " ")
	} else {
		m.screen.status, m.screen.known = msg.status, true
	}
	var lines []feedLine
	lines, m.seen = m.cfg.Feed.since(m.seen)
	for _, l := range lines {
		m.screen.lines = append(m.screen.lines, l.stamped(m.cfg.Location))
	}
	m.screen.lines = m.screen.lines[max(0, len(m.screen.lines)-shownLines):]
}

func (m *model) draw() {
	switch {
	case m.cfg.Interrupt == nil:
		m.screen.help = "q leave (the run goes on)"
	case m.asked == 0:
		m.screen.help = "q stop after the current step and checkpoint"
	case m.asked == 1:
		m.screen.help = "stopping: nodes finish their step and checkpoint · ctrl+c stop now"
	default:
		m.screen.help = "stopping now"
	}
	m.frame = m.screen.render(m.styles)
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.frame)
	v.AltScreen = true
	v.DisableBracketedPasteMode = true
	return v
}
