package doctor

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Doctor reports an interpreter without torch as skipped if another has torch, else as missing. It is never ok.
func TestDoctorSkipsInterpreters(t *testing.T) {
	t.Parallel()
	probes := []policy.Probe{{Path: "/a/python3", Source: "PATH", Err: "ModuleNotFoundError: No module named 'torch'"}, {Path: "/b/python3", Source: "system", Torch: "2.1"}}
	for another, want := range map[bool]string{true: "skipped", false: "MISSING"} {
		var out bytes.Buffer
		require.NoError(t, screen.Print(&out, func(p *table.Page) { p.Table(Table(withoutTorch(probes, another))) }))
		require.Regexp(t, "^"+want+" +python +/a/python3 \\(PATH\\): ModuleNotFoundError: No module named 'torch'\n$", out.String())
	}
}
