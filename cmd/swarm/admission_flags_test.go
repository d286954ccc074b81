package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
)

// ways parses up's flags.
func ways(t *testing.T, args ...string) (*admissionFlags, error) {
	t.Helper()
	var f admissionFlags
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	f.add(flags)
	require.NoError(t, flags.Parse(args))
	if a, err := f.admission(); a == nil {
		return nil, err
	}
	return &f, nil
}

// GDRIVE_PATH alone, which many have set, carries no swarm: the predecessor's role has to be there, and nothing typed that says otherwise.
func TestThePredecessorsFolderCountsWithItsRoleAlone(t *testing.T) {
	drive, other := t.TempDir(), t.TempDir()
	for _, tt := range []struct {
		name, role   string
		args         []string
		listen, into string
		none         bool
	}{
		{name: "no role", none: true},
		{name: "the other role", role: roleWorker, none: true},
		{name: "the role", role: roleCoordinator, into: drive},
		{name: "compat", role: roleCoordinator, args: []string{"--compat"}, into: drive},
		{name: "the network", role: roleCoordinator, args: []string{"--listen", ":1"}, listen: ":1"},
		{name: "another folder", role: roleCoordinator, args: []string{"--shared", other}, into: other},
		{name: "left alone", role: roleCoordinator, args: []string{"--shared", ""}, none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(resolve.FolderVariable, drive)
			t.Setenv(resolve.RoleVariable, tt.role)
			c, err := ways(t, tt.args...)
			require.NoError(t, err)
			require.Equal(t, tt.none, c == nil)
			if c != nil {
				require.Equal(t, tt.listen, c.listen)
				require.Equal(t, tt.into, c.shared)
				require.Equal(t, tt.into == drive, c.predecessor, "nobody typed it, which is said")
			}
		})
	}
	t.Setenv(resolve.FolderVariable, filepath.Join(drive, "none"))
	t.Setenv(resolve.RoleVariable, roleCoordinator)
	_, err := ways(t)
	require.ErrorContains(t, err, "(GDRIVE_PATH): allowed: a folder that is there")
}

func TestAWorkersWayIsWhatWasTypedThenTheInvitationThenThePredecessorsFolder(t *testing.T) {
	drive := t.TempDir()
	for _, tt := range []struct {
		name, role, variable string
		o                    joinOptions
		into                 string
	}{
		{name: "no role"},
		{name: "the other role", role: roleCoordinator},
		{name: "the role", role: roleWorker, into: drive},
		{name: "an invitation", role: roleWorker, o: joinOptions{url: "tls://h:1#t"}},
		{name: "an invitation's file", role: roleWorker, o: joinOptions{urlFile: "f"}},
		{name: "SWARM_JOIN", role: roleWorker, variable: "tls://h:1#t"},
		{name: "left alone", role: roleWorker, o: joinOptions{sharedTyped: true}},
		{name: "typed, and SWARM_JOIN", variable: "tls://h:1#t", o: joinOptions{shared: drive, sharedTyped: true}, into: drive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(resolve.FolderVariable, drive)
			t.Setenv(resolve.RoleVariable, tt.role)
			t.Setenv(resolve.InvitationVariable, tt.variable)
			tt.o.experiment = "e"
			require.NoError(t, tt.o.check())
			require.Equal(t, tt.into, tt.o.shared)
			require.Equal(t, tt.into != "" && !tt.o.sharedTyped, tt.o.predecessor)
		})
	}
	t.Setenv(resolve.FolderVariable, drive)
	_, err := (&joinOptions{}).invitation()
	_, try := fail.SplitRemedy(err.Error())
	require.Contains(t, try+hintOf(err), "NODE_ROLE=worker, with which GDRIVE_PATH counts")
}

// hintOf is the remedy that main prints.
func hintOf(err error) string {
	if u, ok := err.(*fail.UsageError); ok { //nolint:errorlint // not wrapped: made there
		return u.Try
	}
	return ""
}

func TestAClustersPasswordComesFromAFileOfItsOwner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nats")
	for text, want := range map[string]string{
		"nats://u:p@a:1,nats://b:2\n":    "nats://u:p@a:1,nats://b:2",
		"nats://u:p@a:1\nnats://b:2\n\n": "nats://u:p@a:1,nats://b:2",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		c, err := ways(t, "--nats-file", file)
		require.NoError(t, err)
		require.Equal(t, want, c.nats)
	}
	_, err := ways(t, "--nats-file", file, "--nats", "nats://b:2")
	require.ErrorContains(t, err, "at once")
	_, err = ways(t, "--nats-file", file+".none")
	require.ErrorContains(t, err, "no such file")
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = ways(t, "--nats-file", file)
	require.ErrorContains(t, err, "can be read by others")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	_, err = ways(t, "--nats-file", file)
	require.ErrorContains(t, err, "is empty")
}
