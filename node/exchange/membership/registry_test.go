package membership

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func registry(t testing.TB, dir string) *Registry {
	t.Helper()
	r, err := OpenRegistry(dir)
	require.NoError(t, err)
	return r
}

// enrol enrols a worker with an invitation's token.
func enrol(r *Registry, token, name string) (Credentials, error) {
	a := Apply(token, name)
	answer, err := r.Enrol(a.Enrol)
	if err != nil {
		return Credentials{}, err
	}
	return a.Accept(answer)
}

// code returns the refusal's code, empty for no error.
func code(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *Refusal
	require.True(t, errors.As(err, &refusal), "%v", err)
	require.NotContains(t, refusal.Message, "\n")
	return refusal.Code
}

func TestARegistryGivesCredentialsForAnInvitation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workers")
	r := registry(t, dir)
	token, err := r.Invite("", false)
	require.NoError(t, err)
	again, err := registry(t, dir).Invite("", false)
	require.NoError(t, err)
	require.Equal(t, token, again, "the standing invitation stays the same")

	a, err := enrol(r, token, "alice")
	require.NoError(t, err)
	b, err := enrol(r, token, "Alice")
	require.NoError(t, err)
	c, err := enrol(r, token, "")
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "Alice-2", "worker"}, []string{a.Worker, b.Worker, c.Worker})
	require.NoError(t, registry(t, dir).Check(a.Worker, a.Secret))
	require.Equal(t, CodeToken, code(t, r.Check(a.Worker, b.Secret)))

	_, err = enrol(r, "wrong", "x")
	require.Equal(t, CodeToken, code(t, err))
	for _, bad := range []string{"../x", "a b", "enrol", "node", "a.b", "a>", strings.Repeat("x", 40), "-a"} {
		_, err = enrol(r, token, bad)
		require.Equal(t, CodeName, code(t, err), bad)
	}

	require.NoError(t, r.Revoke(standing))
	_, err = enrol(r, token, "dave")
	require.Equal(t, CodeToken, code(t, err))
	require.NoError(t, r.Check(a.Worker, a.Secret), "workers stay")
	fresh, err := r.Invite("", false)
	require.NoError(t, err)
	require.NotEqual(t, token, fresh)

	info, err := os.Stat(filepath.Join(dir, registryFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	data, err := os.ReadFile(filepath.Join(dir, registryFile))
	require.NoError(t, err)
	require.NotContains(t, string(data), a.Secret, "secrets are kept as hashes")
}

func TestAnInvitationForOneIsForOne(t *testing.T) {
	r := registry(t, t.TempDir())
	token, err := r.Invite("bob", true)
	require.NoError(t, err)
	c, err := enrol(r, token, "")
	require.NoError(t, err)
	require.Equal(t, "bob", c.Worker)
	_, err = enrol(r, token, "")
	require.Equal(t, CodeToken, code(t, err))
	require.ErrorContains(t, err, "has been used")
	list, err := r.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, Entry{
		Name: "bob", Kind: KindInvitation, Created: list[0].Created, Once: true, Used: true, Uses: 1, Workers: 1,
		Expires: list[0].Created + invitationLife.Seconds(),
	}, list[0])
	require.Equal(t, "bob", list[1].Invitation)
}

func TestABanAndARevocationAreSeenAtOnceByEveryProcess(t *testing.T) {
	dir := t.TempDir()
	coordinator, tool := registry(t, dir), registry(t, dir)
	token, err := coordinator.Invite("", false)
	require.NoError(t, err)
	c, err := enrol(coordinator, token, "mallory")
	require.NoError(t, err)

	require.NoError(t, tool.Ban("mallory", "lies\x1b[2J about\nrewards"))
	err = coordinator.Check(c.Worker, c.Secret)
	require.Equal(t, CodeBanned, code(t, err))
	require.ErrorContains(t, err, "lies about rewards")
	require.Equal(t, CodeToken, code(t, coordinator.Check(c.Worker, "guess")), "only who has the secret learns of the ban")
	require.NoError(t, tool.Unban("mallory"))
	require.NoError(t, coordinator.Check(c.Worker, c.Secret))
	require.NoError(t, tool.Revoke("mallory"))
	require.Equal(t, CodeRevoked, code(t, coordinator.Check(c.Worker, c.Secret)))
	require.ErrorContains(t, tool.Ban("nobody", ""), "no worker")
	require.ErrorContains(t, tool.Revoke("nobody"), "no worker")
	again, err := enrol(coordinator, token, "mallory")
	require.NoError(t, err)
	require.Equal(t, "mallory-2", again.Worker, "a revoked worker's name is not given away")
}

func TestWatchTellsOfChanges(t *testing.T) {
	dir := t.TempDir()
	watched := registry(t, dir)
	var changes atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); watched.Watch(ctx, func() { changes.Add(1) }) }()
	tool := registry(t, dir)
	require.Eventually(t, func() bool {
		_, err := tool.Invite("x", true)
		require.NoError(t, err)
		return changes.Load() > 0
	}, time.Minute, 50*time.Millisecond)
	cancel()
	<-done
}

func TestSightingsAreListedAndNothingRestsOnThem(t *testing.T) {
	dir := t.TempDir()
	r := registry(t, dir)
	token, err := r.Invite("", false)
	require.NoError(t, err)
	c, err := enrol(r, token, "ann")
	require.NoError(t, err)
	r.Seen(c.Worker, "desk")
	r.Seen(c.Worker, "")
	list, err := registry(t, dir).List()
	require.NoError(t, err)
	require.Equal(t, "desk", list[1].Host)
	require.InDelta(t, float64(time.Now().Unix()), list[1].LastSeen, 60)
	require.NoError(t, os.WriteFile(filepath.Join(dir, sightingsFile), []byte("null"), 0o600))
	other := registry(t, dir)
	other.Seen(c.Worker, "sofa")
	_, err = other.List()
	require.NoError(t, err)
}

func TestABrokenRegistryIsNamed(t *testing.T) {
	for text, says := range map[string]string{
		`{"version":1,`:                          "unexpected end",
		`{"version":2}`:                          "version is 2",
		`{"version":1,"workers":[{"name":"a"}]}`: "worker \"a\" is damaged",
		`{"version":1,"invitations":[{"name":"a","token":""}]}`: "invitation \"a\" is damaged",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, registryFile), []byte(text), 0o600))
		_, err := OpenRegistry(dir)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, ". Try: ")
	}
}

const processes, enrolments = 3, 20

// Several processes enrol workers at once. No worker is lost, and no two have the same name.
func TestProcessesEditTheRegistryAtOnce(t *testing.T) {
	if dir := os.Getenv("MEMBERSHIP_REGISTRY"); dir != "" {
		r := registry(t, dir)
		for range enrolments {
			c, err := enrol(r, os.Getenv("MEMBERSHIP_TOKEN"), "same")
			require.NoError(t, err)
			fmt.Println("made", c.Worker, c.Secret)
		}
		return
	}
	dir := t.TempDir()
	r := registry(t, dir)
	token, err := r.Invite("", false)
	require.NoError(t, err)
	var children [processes]*exec.Cmd
	var outputs [processes]strings.Builder
	for i := range children {
		children[i] = exec.Command(os.Args[0], "-test.run=^TestProcessesEditTheRegistryAtOnce$", "-test.v")
		children[i].Env = append(os.Environ(), "MEMBERSHIP_REGISTRY="+dir, "MEMBERSHIP_TOKEN="+token)
		children[i].Stdout, children[i].Stderr = &outputs[i], &outputs[i]
		require.NoError(t, children[i].Start())
	}
	seen := map[string]bool{}
	for i, child := range children {
		require.NoError(t, child.Wait(), "%s", &outputs[i])
		for line := range strings.Lines(outputs[i].String()) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "made" {
				require.False(t, seen[fields[1]], fields[1])
				seen[fields[1]] = true
				require.NoError(t, r.Check(fields[1], fields[2]))
			}
		}
	}
	require.Len(t, seen, processes*enrolments)
	leftovers, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
}

func TestARegistryTakesAsManyWorkersAsASwarmMayHave(t *testing.T) {
	b := &book{Version: registryVersion, Invitations: []invited{{Name: standing, Token: "t"}}}
	for i := range MaxWorkers {
		b.Workers = append(b.Workers, registered{Name: fmt.Sprintf("w%d", i), Hash: strings.Repeat("00", 32)})
	}
	require.NoError(t, b.index())
	dir := t.TempDir()
	r := registry(t, dir)
	require.NoError(t, r.edit(func(to *book) error { *to = *b; return nil }))
	_, err := enrol(r, "t", "one-more")
	require.Equal(t, CodeFull, code(t, err))
	require.NoError(t, r.Revoke("w7"))
	_, err = enrol(r, "t", "one-more")
	require.NoError(t, err)
}

// An unknown worker and a wrong secret give the same message, and hashes are compared only in constant time.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	r := registry(t, t.TempDir())
	invitation, err := r.Invite("", false)
	require.NoError(t, err)
	c, err := enrol(r, invitation, "ann")
	require.NoError(t, err)
	known, unknown := r.Check(c.Worker, "x"), r.Check("eve", "x")
	require.Equal(t, strings.ReplaceAll(known.Error(), "ann", "eve"), unknown.Error())
	require.False(t, (*registered)(nil).proves(""), "nobody proves nothing")

	for name, comparisons := range map[string]int{"entry.go": 1, "enrol.go": 2} {
		require.Equal(t, comparisons, constantTimeComparisons(t, name), name)
	}
}

// constantTimeComparisons counts a file's constant-time comparisons, and fails if it compares secrets in another way.
func constantTimeComparisons(t *testing.T, name string) (constant int) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				for _, sides := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
					if s, ok := sides[0].(*ast.SelectorExpr); ok && (s.Sel.Name == "Hash" || s.Sel.Name == "Token" || s.Sel.Name == "Proof") {
						literal, ok := sides[1].(*ast.BasicLit)
						require.True(t, ok && literal.Value == `""`, "a secret is compared with %v", n.Op)
					}
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); n.Sel.Name == "ConstantTimeCompare" || ok && x.Name == "hmac" && n.Sel.Name == "Equal" {
				constant++
			}
		}
		return true
	})
	return constant
}

func FuzzRegistry(f *testing.F) {
	f.Add([]byte(`{"version":1,"invitations":[{"name":"a","token":"t","once":true}],"workers":[]}`))
	f.Add([]byte(`{"version":1,"workers":[{"name":"a","hash":"` + strings.Repeat("00", 32) + `"}]}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBook(data)
		if err != nil {
			return
		}
		b.invitation(Apply("t", "n").Enrol)
		for _, w := range b.Workers {
			require.False(t, b.worker(w.Name).proves("guess"))
		}
	})
}
