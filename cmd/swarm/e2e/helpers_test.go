package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/cmd/swarm/swarmtest"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

const patience = swarmtest.Patience

var (
	tinyModel        = swarmtest.TinyModel
	items            = swarmtest.Items
	tinyRun          = swarmtest.TinyRun
	usablePython     = swarmtest.Python
	swarmCommand     = swarmtest.Command
	waitFor          = swarmtest.WaitFor
	marker           = swarmtest.Marker
	processes        = swarmtest.Processes
	requireNoProcess = swarmtest.RequireNoProcess
	send             = swarmtest.Send
	childrenOf       = swarmtest.ChildrenOf
	stormProgram     = swarmtest.Program
	decode           = swarmtest.Decode
	fields           = swarmtest.Fields
	mount            = swarmtest.Mount
	findPython       = swarmtest.FindPython
	parent           = swarmtest.Parent
)

type lockedBuffer = swarmtest.Buffer

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// finish runs a command to its end.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	o := swarmtest.Finish(t, cmd)
	return outcome{o.Code, o.Stdout, o.Stderr}
}

// swarm runs the program.
func swarm(t testing.TB, home string, args ...string) outcome {
	t.Helper()
	return finish(t, swarmCommand(t, home, args...))
}

// status is swarm status -o json.
func status(t *testing.T, home string) stats.Status {
	t.Helper()
	o := swarm(t, home, "status", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var s stats.Status
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &s))
	return s
}
