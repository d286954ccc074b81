package main

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

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
	fakeNVML         = swarmtest.FakeNVML
	findPython       = swarmtest.FindPython
)

type lockedBuffer = swarmtest.Buffer

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// pollEvery is the interval between polls that run the program.
const pollEvery = 100 * time.Millisecond

// finish runs a command to its end and checks its hints.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	o := swarmtest.Finish(t, cmd)
	requireHints(t, cmd.Args[1:], outcome{o.Code, o.Stdout, o.Stderr})
	return outcome{o.Code, o.Stdout, o.Stderr}
}

// swarm runs the program.
func swarm(t testing.TB, home string, args ...string) outcome {
	t.Helper()
	return finish(t, swarmCommand(t, home, args...))
}

// status is swarm status -o json, run within this process because some tests poll it.
func status(t *testing.T, home string) stats.Status {
	t.Helper()
	o := within(home, "status", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var s stats.Status
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &s))
	return s
}
