package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/model"
)

// The table of presets in docs/CLI.md has the figures of configs/models and of the plan's estimate.
func TestModelsPage(t *testing.T) {
	var want strings.Builder
	want.WriteString("| preset | parameters | download | license | a node on a GPU | a node on a CPU |\n|---|---|---|---|---|---|\n")
	for _, name := range configs.Models() {
		m, err := configs.LoadModel(name)
		require.NoError(t, err)
		node, err := plan.NodeMemoryOf(m)
		require.NoError(t, err)
		download := units.Bytes(m.DownloadBytes)
		if m.Weights == model.Embedded {
			download = "built in"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s + %s | %s + %s |\n", name, units.Group(m.Shape.Parameters), download, m.License,
			units.Bytes(node.CUDA.Resident), units.Bytes(node.CUDA.Transient), units.Bytes(node.CPU.Resident), units.Bytes(node.CPU.Transient))
	}
	page, err := os.ReadFile("../../docs/CLI.md")
	require.NoError(t, err)
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/CLI.md needs this table:\n%s", want.String())
	}
}
