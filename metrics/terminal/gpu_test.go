package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/table"
)

// someGPUs returns a GPU with that many nodes, a lost GPU, and an idle one with an old driver.
func someGPUs(nodes int) GPUStatus {
	x := GPUStatus{
		Time: 1756719000, Driver: "550.54.15", HostTotal: 128e9, HostUsed: 40e9,
		Devices: []GPUDevice{
			{Label: "GPU 0", Name: "NVIDIA A100-SXM4-80GB", Total: 85899345920, Used: 78e9, Nodes: 61e9, Unattributed: 17e9, Utilization: 0.93,
				Power: 310, Limit: 400, Temperature: 61, Trend: []float64{10, 20, 40, 52, 50, 78}},
			{Label: "GPU 1", Name: "NVIDIA A100-SXM4-80GB", Problem: "lost: the GPU fell off its bus. Try: reboot the machine"},
			{Label: "GPU 2", Name: "Tesla T4", Total: 16106127360, Used: 370e6, Utilization: -1, Power: -1, Limit: -1, Temperature: -1},
		},
		Warnings:        []string{"GPU 0: 78.0 GB of 85.9 GB in use, more than 7/8: likely to run out of memory. Try: fewer nodes (--nodes 7)"},
		Recommendations: []string{"GPU 0: nodes can run with less memory. Try: gradient_checkpointing: true"},
	}
	for i := range nodes {
		x.Nodes = append(x.Nodes, GPUNode{Run: "sapo-4-4-20250901-0930", Node: fmt.Sprint("node_", i), State: "updating", Device: "GPU 0",
			Held: 6e9 + int64(i)*1e8, Peak: 7e9 + int64(i)*1e8, Resident: 24e8, Transient: 46e8, Budget: 75e8})
	}
	return x
}

func onCPU() GPUStatus {
	return GPUStatus{
		Time: 1756719000, Reason: "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found). Try: install the NVIDIA driver",
		HostTotal: 8e9, HostUsed: 3e9, HostTrend: []float64{1, 2, 3},
		Nodes: []GPUNode{
			{Run: "a", Node: "node_0", State: "generating", Device: "host", Held: 3e8, Peak: 4e8},
			{Run: "b", Node: "node_0", State: "queued", Device: "host"},
		},
	}
}

func gpuTestConfig(x GPUStatus) GPUConfig {
	return GPUConfig{Poll: func(context.Context) (GPUStatus, error) { return x, nil }, Interval: time.Millisecond, Location: time.UTC}
}

func TestGPUFrames(t *testing.T) {
	for name, x := range map[string]struct {
		status        GPUStatus
		width, height int
	}{
		"gpu_100":     {someGPUs(8), 100, 40},
		"gpu_60":      {someGPUs(8), 60, 24},
		"gpu_nodes":   {someGPUs(24), 80, 30},
		"gpu_cpu":     {onCPU(), 80, 24},
		"gpu_nothing": {GPUStatus{Reason: "none. Try: another machine"}, 80, 24},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGPUModel(t.Context(), gpuTestConfig(x.status))
			require.Contains(t, m.frame, "asking the driver")
			m.Update(tea.WindowSizeMsg{Width: x.width, Height: x.height})
			m.Update(m.poll())
			golden(t, name+".txt", ansi.Strip(m.View().Content)+"\n")
		})
	}
}

func TestEveryGPUFrameFits(t *testing.T) {
	for _, x := range []GPUStatus{someGPUs(0), someGPUs(24), onCPU(), {}} {
		x.Warnings = append(x.Warnings, strings.Repeat("long ", 200))
		for width := len("q leave"); width < 160; width += 7 {
			for height := 1; height < 60; height += 3 {
				lines := strings.Split(gpuFrame(newStyles(true), x, true, "no news", "q leave", width, height, time.UTC), "\n")
				require.LessOrEqual(t, len(lines), height)
				for _, l := range lines {
					require.LessOrEqual(t, ansi.StringWidth(l), width)
				}
				require.Contains(t, lines[len(lines)-1], "q leave")
			}
		}
	}
}

func TestPrintGPUs(t *testing.T) {
	for name, x := range map[string]GPUStatus{"gpu_print": someGPUs(8), "gpu_print_cpu": onCPU()} {
		var out bytes.Buffer
		p := table.NewPage(&out, table.Screen{})
		PrintGPUs(p, x)
		require.NoError(t, p.Flush())
		require.NotContains(t, out.String(), "\x1b")
		golden(t, name+".txt", out.String())
	}
}

func TestGPUViewKeepsTheLastFrameAndFollowsNoColor(t *testing.T) {
	cfg := gpuTestConfig(someGPUs(2))
	for environ, color := range map[string]bool{"TERM=xterm": true, "NO_COLOR=1": false} {
		cfg.Environ = []string{environ}
		m := newGPUModel(t.Context(), cfg)
		m.Update(m.poll())
		require.Equal(t, color, strings.Contains(m.frame, "31m"), environ)
		m.Update(gpuMsg{err: errors.New("the GPU driver did\nnot answer")})
		require.Contains(t, m.frame, "node_1")
		require.Contains(t, m.frame, "no news: the GPU driver did not answer")
		m.Update(m.poll())
		require.NotContains(t, m.frame, "no news")
	}
}

func TestLiveGPUsIsLeftByKeyAndByContext(t *testing.T) {
	for _, key := range []string{"q", "\x03", ""} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		in, keys := io.Pipe()
		defer keys.Close()
		out := &safeBuffer{}
		cfg := gpuTestConfig(someGPUs(2))
		cfg.In, cfg.Out, cfg.Environ = in, out, []string{"TERM=xterm"}
		done := make(chan error, 1)
		go func() { done <- LiveGPUs(ctx, cfg) }()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "node_1") }, time.Minute, 5*time.Millisecond)
		if key == "" {
			cancel()
		} else {
			_, err := keys.Write([]byte(key))
			require.NoError(t, err)
		}
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatalf("key %q did not end the view", key)
		}
	}
}
