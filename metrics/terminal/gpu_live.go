package terminal

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// GPUConfig is the configuration of LiveGPUs.
type GPUConfig struct {
	// Poll returns the current status. It is called every Interval, never concurrently.
	Poll     func(context.Context) (GPUStatus, error)
	Interval time.Duration

	Out      io.Writer
	In       io.Reader
	Environ  []string       // environment of the terminal: TERM, NO_COLOR, COLORTERM
	Location *time.Location // time zone of displayed times, default time.Local
}

// LiveGPUs shows the GPUs on the whole terminal until the user leaves the view or ctx ends. The end of ctx is not an
// error.
func LiveGPUs(ctx context.Context, cfg GPUConfig) error {
	if cfg.Location == nil {
		cfg.Location = time.Local
	}
	return show(ctx, cfg.In, cfg.Out, cfg.Environ, func(ctx context.Context) tea.Model { return newGPUModel(ctx, cfg) })
}

type gpuMsg struct {
	status GPUStatus
	err    error
}

// gpuModel is the state of the GPU view. It draws its frame after each change.
type gpuModel struct {
	ctx           context.Context //nolint:containedctx // bubbletea's commands take none
	cfg           GPUConfig
	styles        styles
	status        GPUStatus
	known         bool // status was polled at least once
	trouble       string
	width, height int
	ascii         bool // the terminal supports only ASCII
	frame         string
}

func newGPUModel(ctx context.Context, cfg GPUConfig) *gpuModel {
	m := &gpuModel{ctx: ctx, cfg: cfg, styles: newStyles(!charset.NoColor(cfg.Environ)), width: defaultWidth, height: defaultHeight,
		ascii: charset.ASCIIOnly(cfg.Environ)}
	m.draw()
	return m
}

// Init implements tea.Model.
func (m *gpuModel) Init() tea.Cmd { return m.poll }

func (m *gpuModel) poll() tea.Msg {
	status, err := m.cfg.Poll(m.ctx)
	return gpuMsg{status, err}
}

// Update implements tea.Model.
func (m *gpuModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
		return m, nil
	case tickMsg:
		return m, m.poll
	case gpuMsg:
		m.trouble = ""
		if msg.err != nil {
			m.trouble = noNews(msg.err)
		} else {
			m.status, m.known = cleanGPUs(msg.status), true
		}
		m.draw()
		return m, tea.Tick(m.cfg.Interval, func(time.Time) tea.Msg { return tickMsg{} })
	default:
		return m, nil
	}
	m.draw()
	return m, nil
}

func (m *gpuModel) draw() {
	m.frame = gpuFrame(m.styles, m.status, m.known, m.trouble, "q leave (runs continue)", m.width, m.height, m.cfg.Location)
	if m.ascii {
		m.frame = charset.Cells(m.frame)
	}
}

// View implements tea.Model.
func (m *gpuModel) View() tea.View {
	v := tea.NewView(m.frame)
	v.AltScreen = true
	v.DisableBracketedPasteMode = true
	return v
}
