package membership

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// An invitation admits a limited number of workers, leaves places for other invitations, and expires.
func TestAnInvitationIsForSoManyAndForSoLong(t *testing.T) {
	r := registry(t, t.TempDir())
	token, err := r.InviteFor(Terms{Name: "class", Uses: 3, Life: time.Hour})
	require.NoError(t, err)
	for i := range 3 {
		_, err := enrol(r, token, fmt.Sprintf("w%d", i))
		require.NoError(t, err)
	}
	_, err = enrol(r, token, "w3")
	require.Equal(t, CodeFull, code(t, err))
	require.ErrorContains(t, err, "has admitted its maximum of 3 workers. Try: ")

	leaked, err := r.Invite("", false) // the standing invitation
	require.NoError(t, err)
	for i := range standingUses + 40 {
		_, err := enrol(r, leaked, fmt.Sprintf("sybil%d", i))
		require.Equal(t, i >= standingUses, err != nil, "%d: %v", i, err)
	}
	friend, err := r.Invite("anna", true)
	require.NoError(t, err)
	_, err = enrol(r, friend, "anna")
	require.NoError(t, err, "the registry has room for those who are invited otherwise")
	other, err := r.Invite("", false)
	require.NoError(t, err)
	require.NotEqual(t, leaked, other, "a standing invitation that is used up is replaced")

	short, err := r.InviteFor(Terms{Name: "short", Life: time.Nanosecond})
	require.NoError(t, err)
	time.Sleep(time.Millisecond)
	_, err = enrol(r, short, "late")
	require.Equal(t, CodeToken, code(t, err))
	require.ErrorContains(t, err, "expired")
	list, err := r.List()
	require.NoError(t, err)
	require.Equal(t, 3, list[0].Workers)
	require.Equal(t, 3, list[0].Uses)
}

// A leaked invitation can be revoked with all workers that enrolled with it, and no others.
func TestAnInvitationIsRevokedWithItsWorkers(t *testing.T) {
	dir := t.TempDir()
	r := registry(t, dir)
	leaked, err := r.Invite("", false)
	require.NoError(t, err)
	private, err := r.Invite("friend", false)
	require.NoError(t, err)
	friend, err := enrol(r, private, "friend")
	require.NoError(t, err)
	var sybils []Credentials
	for i := range 5 {
		c, err := enrol(r, leaked, fmt.Sprintf("s%d", i))
		require.NoError(t, err)
		sybils = append(sybils, c)
	}
	require.NotEmpty(t, r.Invitation("s0"))
	require.Equal(t, r.Invitation("s0"), r.Invitation("s4"))
	require.NotEqual(t, r.Invitation("s0"), r.Invitation("friend"))
	gone, err := registry(t, dir).RevokeWithWorkers(standing)
	require.NoError(t, err)
	require.Len(t, gone, 5)
	for _, c := range sybils {
		require.Equal(t, CodeRevoked, code(t, r.Check(c.Worker, c.Secret)))
	}
	require.NoError(t, r.Check(friend.Worker, friend.Secret))
	_, err = enrol(r, leaked, "again")
	require.Equal(t, CodeToken, code(t, err))
	_, err = r.RevokeWithWorkers("nobody")
	require.ErrorContains(t, err, "no worker")
}

// A worker that is silent for a month is forgotten, which frees its place. If it comes back, it is told why.
func TestWhoIsNotHeardOfIsForgotten(t *testing.T) {
	r := registry(t, t.TempDir())
	token, err := r.InviteFor(Terms{Name: "class", Uses: 3})
	require.NoError(t, err)
	var all []Credentials
	for _, name := range []string{"faithful", "silent", "banned"} {
		c, err := enrol(r, token, name)
		require.NoError(t, err)
		all = append(all, c)
	}
	require.NoError(t, r.Ban("banned", "lies"))
	require.NoError(t, r.edit(func(b *book) error {
		for i := range b.Workers {
			b.Workers[i].Created -= 2 * forgetAfter.Seconds()
		}
		return nil
	}))
	require.NoError(t, r.Check("silent", all[1].Secret), "the record of who was seen is lost: nobody is forgotten for that")
	r.Seen("faithful", "desk")
	require.NoError(t, r.Check("faithful", all[0].Secret))
	err = r.Check("silent", all[1].Secret)
	require.Equal(t, CodeRevoked, code(t, err))
	require.ErrorContains(t, err, "for 30 days")
	require.Equal(t, CodeRevoked, r.standing("silent").Code)
	require.Equal(t, CodeToken, code(t, r.Check("silent", "wrong")), "a guess learns nothing")
	_, err = enrol(r, token, "new")
	require.NoError(t, err, "its use of the invitation is free again")
	require.Nil(t, func() *registered { b, _ := r.read(); return b.worker("silent") }())
	require.Equal(t, CodeBanned, code(t, r.Check("banned", all[2].Secret)))
}

// A registry of an earlier version has neither uses nor times, and keeps working.
func TestARegistryOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	text := `{"version":1,"invitations":[{"name":"invitation","token":"t","created":1}],"workers":[{"name":"old","hash":"` + hashOf("s") + `","created":` +
		fmt.Sprint(event.Now()) + `}]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, registryFile), []byte(text), 0o600))
	r := registry(t, dir)
	require.NoError(t, r.Check("old", "s"))
	require.Empty(t, r.Invitation("old"))
	_, err := enrol(r, "t", "new")
	require.NoError(t, err)
	token, err := r.Invite("", false)
	require.NoError(t, err)
	require.Equal(t, "t", token)
	list, err := r.List()
	require.NoError(t, err)
	require.Equal(t, standingUses, list[0].Uses)
	require.Positive(t, list[0].Expires)
}
