package workers

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

func TestMain(m *testing.M) {
	playPart()
	os.Exit(hermetic.Main(m))
}

// ways checks up's options.
func ways(o Options, typed ...string) (*Options, error) {
	if a, err := o.Admission(func(flag string) bool { return slices.Contains(typed, flag) }); a == nil {
		return nil, err
	}
	return &o, nil
}

// Many users have set GDRIVE_PATH, so it does not select a transport by itself: rl-swarm's role must be set too,
// and no flag may select another transport.
func TestThePredecessorsFolderCountsWithItsRoleAlone(t *testing.T) {
	drive, other := t.TempDir(), t.TempDir()
	for _, tt := range []struct {
		name, role   string
		o            Options
		typed        string
		listen, into string
		none         bool
	}{
		{name: "no role", none: true},
		{name: "the other role", role: RoleWorker, none: true},
		{name: "the role", role: RoleCoordinator, into: drive},
		{name: "compat", role: RoleCoordinator, o: Options{Compat: true}, into: drive},
		{name: "the network", role: RoleCoordinator, o: Options{Listen: ":1"}, typed: "listen", listen: ":1"},
		{name: "another folder", role: RoleCoordinator, o: Options{Shared: other}, typed: "shared", into: other},
		{name: "left alone", role: RoleCoordinator, typed: "shared", none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(resolve.FolderVariable, drive)
			t.Setenv(resolve.RoleVariable, tt.role)
			c, err := ways(tt.o, tt.typed)
			require.NoError(t, err)
			require.Equal(t, tt.none, c == nil)
			if c != nil {
				require.Equal(t, tt.listen, c.Listen)
				require.Equal(t, tt.into, c.Shared)
				require.Equal(t, tt.into == drive, c.Predecessor, "nobody typed it, which is said")
			}
		})
	}
	t.Setenv(resolve.FolderVariable, filepath.Join(drive, "none"))
	t.Setenv(resolve.RoleVariable, RoleCoordinator)
	_, err := ways(Options{})
	require.ErrorContains(t, err, "(GDRIVE_PATH): allowed: an existing folder")
}

func TestAWorkersWayIsWhatWasTypedThenTheInvitationThenThePredecessorsFolder(t *testing.T) {
	drive := t.TempDir()
	for _, tt := range []struct {
		name, role, variable string
		o                    JoinOptions
		into                 string
	}{
		{name: "no role"},
		{name: "the other role", role: RoleCoordinator},
		{name: "the role", role: RoleWorker, into: drive},
		{name: "an invitation", role: RoleWorker, o: JoinOptions{URL: "tls://h:1#t"}},
		{name: "an invitation's file", role: RoleWorker, o: JoinOptions{URLFile: "f"}},
		{name: "SWARM_JOIN", role: RoleWorker, variable: "tls://h:1#t"},
		{name: "left alone", role: RoleWorker, o: JoinOptions{SharedTyped: true}},
		{name: "typed, and SWARM_JOIN", variable: "tls://h:1#t", o: JoinOptions{Shared: drive, SharedTyped: true}, into: drive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(resolve.FolderVariable, drive)
			t.Setenv(resolve.RoleVariable, tt.role)
			t.Setenv(resolve.InvitationVariable, tt.variable)
			tt.o.Experiment = "e"
			require.NoError(t, tt.o.Check())
			require.Equal(t, tt.into, tt.o.Shared)
			require.Equal(t, tt.into != "" && !tt.o.SharedTyped, tt.o.Predecessor)
		})
	}
	t.Setenv(resolve.FolderVariable, drive)
	_, err := (&JoinOptions{}).Invitation()
	_, try := fail.SplitRemedy(err.Error())
	require.Contains(t, try+hintOf(err), "NODE_ROLE=worker, with which GDRIVE_PATH counts")
}

// hintOf returns the remedy that main prints.
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
		c, err := ways(Options{NATSFile: file})
		require.NoError(t, err)
		require.Equal(t, want, c.NATS)
	}
	_, err := ways(Options{NATSFile: file, NATS: "nats://b:2"})
	require.ErrorContains(t, err, "exclude each other")
	_, err = ways(Options{NATSFile: file + ".none"})
	require.ErrorContains(t, err, "no such file")
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = ways(Options{NATSFile: file})
	require.ErrorContains(t, err, "other users can read")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	_, err = ways(Options{NATSFile: file})
	require.ErrorContains(t, err, "is empty")
}

func TestHowLongJoinWaits(t *testing.T) {
	t.Parallel()
	o := JoinOptions{Wait: DefaultWait}
	require.Equal(t, time.Minute, o.waitLimit())
	o.Shared = "/x"
	require.Equal(t, 10*time.Minute, o.waitLimit())
	o.WaitTyped, o.Wait = true, 0
	require.Zero(t, o.waitLimit())
}

// Errors say why a worker cannot use a shared folder's swarm: the folder is another experiment's, or no coordinator
// answers.
func TestReachThroughAFolderSaysWhatIsWrong(t *testing.T) {
	shared := t.TempDir()
	dir, err := sharedir.Folder(shared, "mine")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, sharedir.Announce(dir, membership.Welcome{Protocol: membership.Protocol, Run: "theirs-1", Experiment: "theirs"}))
	var log bytes.Buffer
	home, logger := layout.Home(t.TempDir()), slog.New(slog.NewTextHandler(&log, nil))
	o := JoinOptions{Shared: shared, Experiment: "mine", Name: "w"}
	_, err = o.Connect(t.Context(), home, "test", io.Discard, logger)
	require.ErrorContains(t, err, "belongs to experiment theirs, not mine")

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.Experiment = "nobodys"
	_, err = o.Connect(ctx, home, "test", io.Discard, logger)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "experiment nobodys is not in "+shared)
}
