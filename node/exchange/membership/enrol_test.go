package membership

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func workersOf(t testing.TB, r *Registry) (names []string) {
	t.Helper()
	list, err := r.List()
	require.NoError(t, err)
	for _, e := range list {
		if e.Kind == KindWorker {
			names = append(names, e.Name)
		}
	}
	return names
}

// The answer may be lost, and an eavesdropper may repeat the request. It still creates one worker.
func TestTheSameQuestionAgainMakesNoOtherWorker(t *testing.T) {
	dir := t.TempDir()
	r := registry(t, dir)
	token, err := r.Invite("bob", true)
	require.NoError(t, err)
	application := Apply(token, "ann")
	first, err := r.Enrol(application.Enrol)
	require.NoError(t, err)
	again, err := registry(t, dir).Enrol(application.Enrol)
	require.NoError(t, err, "also with an invitation for one")
	require.Equal(t, first, again)
	c, err := application.Accept(again)
	require.NoError(t, err)
	require.NoError(t, r.Check(c.Worker, c.Secret))
	require.Equal(t, []string{"ann"}, workersOf(t, r))

	require.NoError(t, r.Ban("ann", "lies"))
	_, err = r.Enrol(application.Enrol)
	require.Equal(t, CodeBanned, code(t, err))
	require.NoError(t, r.Unban("ann"))
	require.NoError(t, r.Revoke("ann"))
	_, err = r.Enrol(application.Enrol)
	require.Equal(t, CodeRevoked, code(t, err), "who was shut out doesn't come back by it")
	require.Equal(t, []string{"ann"}, workersOf(t, r))
}

// No part of a request or an answer can be changed in transit, and neither contains anything that would admit another
// client.
func TestAnEnrolmentCannotBeForged(t *testing.T) {
	r := registry(t, t.TempDir())
	token, err := r.Invite("", false)
	require.NoError(t, err)
	application, other := Apply(token, "ann"), Apply(token, "eve")
	for name, change := range map[string]func(*Enrol){
		"another name":    func(e *Enrol) { e.Name = "eve" },
		"another secret":  func(e *Enrol) { e.Hash = other.Enrol.Hash },
		"another proof":   func(e *Enrol) { e.Proof = other.Enrol.Proof },
		"the answer's":    func(e *Enrol) { e.Proof = e.confirmation(token, e.Name) },
		"no invitation":   func(e *Enrol) { e.Proof = e.proof("") },
		"another version": func(e *Enrol) { e.Protocol++ },
	} {
		forged := application.Enrol
		change(&forged)
		_, err := r.Enrol(forged)
		require.Equal(t, CodeToken, code(t, err), name)
	}
	for name, change := range map[string]func(*Enrol){
		"no hash":        func(e *Enrol) { e.Hash = "" },
		"no hexadecimal": func(e *Enrol) { e.Hash = strings.Repeat("g", 64) },
		"no proof":       func(e *Enrol) { e.Proof = e.Proof[1:] },
		"a giant's name": func(e *Enrol) { e.Name = strings.Repeat("x", MaxTextBytes+1) },
	} {
		bad := application.Enrol
		change(&bad)
		_, err := r.Enrol(bad)
		require.Equal(t, CodeMalformed, code(t, err), name)
	}
	require.Empty(t, workersOf(t, r))

	answer, err := r.Enrol(application.Enrol)
	require.NoError(t, err)
	elsewhere, err := r.Enrol(other.Enrol)
	require.NoError(t, err)
	for name, forged := range map[string]Enrolled{
		"another name":    {"eve", answer.Proof},
		"no proof":        {"ann", ""},
		"another's":       elsewhere,
		"the question's":  {"ann", application.Enrol.Proof},
		"a path":          {"../ann", application.Enrol.confirmation(token, "../ann")},
		"of a stranger's": application.Enrol.accept("x", "ann"),
	} {
		_, err := application.Accept(forged)
		require.Equal(t, CodeToken, code(t, err), name)
	}
	c, err := application.Accept(answer)
	require.NoError(t, err)
	said, err := json.Marshal([]any{application.Enrol, answer})
	require.NoError(t, err)
	require.NotContains(t, string(said), token)
	require.NotContains(t, string(said), c.Secret)
}

// Requests without an invitation use up nobody's rate.
func TestStrangersDoNotUseUpEnrolments(t *testing.T) {
	registry := registry(t, t.TempDir())
	d := newTestServer(t, func(o *AdmissionOptions) { o.Registry = registry })
	token, err := registry.Invite("", false)
	require.NoError(t, err)
	stranger := Apply("a guess", "eve").Enrol
	for range 2 * enrolBurst {
		_, err := d.Enrol(t.Context(), stranger)
		require.Equal(t, CodeToken, code(t, err))
	}
	_, err = d.Enrol(t.Context(), Apply(token, "ann").Enrol)
	require.NoError(t, err)
}

// FuzzEnrol: a sender without the token is never admitted, and its answers never give credentials.
func FuzzEnrol(f *testing.F) {
	application := Apply("token", "ann")
	question, err := json.Marshal(application.Enrol)
	require.NoError(f, err)
	answer, err := json.Marshal(application.Enrol.accept("another", "ann"))
	require.NoError(f, err)
	f.Add(question)
	f.Add(answer)
	f.Add([]byte(`{"protocol":2,"name":"a","hash":"` + strings.Repeat("0", 64) + `","proof":"` + strings.Repeat("f", 64) + `"}`))
	b := &book{Invitations: []invited{{Name: standing, Token: "secret of the coordinator's"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Enrol
		if json.Unmarshal(data, &e) == nil && e.check() == nil {
			require.Nil(t, b.invitation(e), "%s", data)
		}
		var a Enrolled
		if json.Unmarshal(data, &a) == nil {
			_, err := application.Accept(a)
			require.Equal(t, CodeToken, code(t, err))
		}
	})
}

// A worker in an older registry whose name is reserved can be read, but is refused.
func TestAWorkerWhoseRequestsOthersWouldHearIsRefused(t *testing.T) {
	b, err := decodeBook([]byte(`{"version":1,"workers":[{"name":"shared","hash":"` + strings.Repeat("00", 32) + `"}]}`))
	require.NoError(t, err)
	require.Len(t, b.Workers, 1)
	r := registry(t, t.TempDir())
	token, err := r.Invite("", false)
	require.NoError(t, err)
	_, err = enrol(r, token, "Shared")
	require.Equal(t, CodeName, code(t, err))
	d := newTestServer(t, nil)
	require.Equal(t, CodeName, code(t, d.hello("shared", "h", "p")))
}
