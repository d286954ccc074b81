package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// join prints within 2 s which address it waits for. After --wait it gives up with one line that has the address.
func TestJoinWaitsForNoOneOnlySoLong(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	address := closed.Addr().String()
	invitation := strings.Replace(anInvitation, "203.0.113.7:4222", address, 1)
	require.Contains(t, invitation, address)
	began := time.Now()
	o := inProcess(t, "join", invitation, "--wait", "2500ms")
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Empty(t, o.stdout)
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	require.Len(t, lines, 3, o.stderr)
	require.Equal(t, "Waiting 1 s of 2.5s (--wait) for the coordinator at tls://"+address, lines[0])
	require.Regexp(t, `^Error: enroll at tls://`+address+`: no answer from this address: waited 2\.5s \(last: connection refused \(.*\)\)$`, lines[1])
	require.Equal(t, "Try: check that swarm up --listen runs there, and that its port is reachable from here (firewall, port forwarding, swarm up --advertise), or a longer --wait", lines[2])

	// The same for a worker that has joined before.
	home := t.TempDir()
	var i membership.Invitation
	i, err = membership.ParseInvitation(invitation)
	require.NoError(t, err)
	path := workers.CredentialsPath(layout.Home(home), i, "")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	writeFile(t, path, `{"worker":"anna","secret":"s"}`)
	o = inProcess(t, "join", "--home", home, invitation, "--wait", "1500ms")
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	require.Regexp(t, `(?m)^Error: reach the coordinator at tls://`+address+`: no answer from this address: waited 1\.5s \(last: .*\)$`, o.stderr)
	require.NotContains(t, o.stderr, "level=")

	// The same for a shared folder.
	shared := t.TempDir()
	o = inProcess(t, "join", "--shared", shared, "--experiment", "e", "--wait", "1500ms")
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	require.Equal(t, "Waiting 1 s of 1.5s (--wait) for the experiment e in "+shared+"\n"+
		"Error: join through the shared folder: experiment e is not in "+shared+": waited 1.5s\n"+
		"Try: check that the coordinator runs with --shared and that the folder syncs, or a longer --wait\n", o.stderr)

	o = inProcess(t, "join", invitation, "--wait", "-1s")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Equal(t, "Error: bad wait \"-1s\" (--wait): allowed: a time such as 60s or 10m, or 0 to wait without a limit\n", o.stderr)
}
