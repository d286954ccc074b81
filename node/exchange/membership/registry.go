package membership

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	registryFile = "workers.json"
	registryLock = "lock"

	lockPatience = 10 * time.Second
	watchEvery   = 500 * time.Millisecond
)

// Registry holds the invitations and workers of a swarm, in a file in a folder that only its owner can read. Several
// processes may change it at once, so that `swarm workers` works while a coordinator runs. Each change takes a lock and
// replaces the whole file. Every process sees it at the next access. Safe for concurrent use.
//
// A ban or a revocation ends a worker's credentials, but not the invitations that it may have. With the standing
// invitation it can enrol again under another name, until that invitation is revoked or used up.
type Registry struct {
	dir  string
	seen *sightings

	mu   sync.Mutex // guards the cache
	file fs.FileInfo
	book *book
}

// OpenRegistry opens the registry and creates a missing folder.
func OpenRegistry(dir string) (*Registry, error) {
	if err := files.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the workers' registry: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the workers' registry: %w. Try: as the folder's owner", err)
	}
	r := &Registry{dir: dir, seen: openSightings(filepath.Join(dir, sightingsFile))}
	_, err := r.read()
	return r, err
}

// Defaults of an invitation.
const (
	standingUses   = 256
	namedUses      = 16
	invitationLife = 30 * 24 * time.Hour
)

// Terms configure an invitation.
type Terms struct {
	Name string        // name of a worker that requests none; empty: the standing invitation's, or "worker"
	Uses int           // maximum workers; 0: 256 for the standing invitation, 16 for others
	Life time.Duration // 0: 30 days
}

// Invite calls InviteFor with a name alone, or with once for a single worker.
func (r *Registry) Invite(name string, once bool) (token string, err error) {
	terms := Terms{Name: name}
	if once {
		terms.Uses = 1
	}
	return r.InviteFor(terms)
}

// InviteFor creates an invitation and returns its token. Without terms it returns the standing invitation. That one
// stays the same until it is revoked, expired or used up. Each call extends it to 30 days from now.
func (r *Registry) InviteFor(terms Terms) (token string, err error) {
	err = r.edit(func(b *book) error {
		i := invited{Name: terms.Name, Created: event.Now(), Uses: terms.Uses, Once: terms.Uses == 1}
		i.Expires = i.Created + cmp.Or(terms.Life, invitationLife).Seconds()
		switch {
		case terms == Terms{}:
			if known := b.standing(i.Created); known != nil {
				token = known.Token
				known.Uses, known.Expires = cmp.Or(known.Uses, standingUses), max(known.Expires, i.Expires)
				return nil
			}
			i.Name, i.Uses = standing, standingUses
		case i.Name == "":
			i.Name = "worker"
		default:
			if refusal := checkWorker(i.Name); refusal != nil {
				return refusal
			}
		}
		i.Uses = cmp.Or(i.Uses, namedUses)
		if len(b.Invitations) >= maxEntries {
			b.Invitations = spent(b.Invitations, i.Created)
		}
		if len(b.Invitations) >= maxEntries {
			return fmt.Errorf("there are already %d invitations. Try: swarm workers revoke NAME", len(b.Invitations))
		}
		token = secret(16)
		i.Token = token
		b.Invitations = append(b.Invitations, i)
		return nil
	})
	return token, err
}

// standing returns the standing invitation if it admits workers, otherwise nil.
func (b *book) standing(now float64) *invited {
	for n := range b.Invitations {
		if i := &b.Invitations[n]; i.Name == standing && b.open(i, now) == nil {
			return i
		}
	}
	return nil
}

// spent returns the invitations without those that are revoked, used or expired.
func spent(all []invited, now float64) []invited {
	var kept []invited
	for _, i := range all {
		if !i.Revoked && !(i.Once && i.Used) && (i.Expires == 0 || now < i.Expires) {
			kept = append(kept, i)
		}
	}
	return kept
}

// invites refuses a request that does not prove an invitation's token. It costs no lock and mostly no reading.
func (r *Registry) invites(e Enrol) *Refusal {
	if refusal := e.check(); refusal != nil {
		return refusal
	}
	b, err := r.read()
	if err != nil {
		return internal(err)
	}
	if b.invitation(e) == nil {
		return errNotInvited
	}
	return nil
}

var errNotInvited = Refuse(CodeToken, "the coordinator does not know this invitation. Try: copy the whole line of swarm up, in quotes, or ask for a new one")

// Enrol adds a worker for a request that proves an invitation's token. A repeated request, from any sender, adds no
// other worker. Its errors are *Refusal.
func (r *Registry) Enrol(e Enrol) (Enrolled, error) {
	if refusal := e.check(); refusal != nil {
		return Enrolled{}, refusal
	}
	var answer Enrolled
	err := r.edit(func(b *book) error {
		i := b.invitation(e)
		if i == nil {
			return errNotInvited
		}
		if w := b.enrolled(e); w != nil {
			if refusal := w.standing(); refusal != nil {
				return refusal
			}
			answer = e.accept(i.Token, w.Name)
			return errSame
		}
		now := event.Now()
		b.forget(r.seen.all(), now)
		if refusal := b.open(i, now); refusal != nil {
			return refusal
		}
		worker, refusal := b.register(e, i)
		if refusal != nil {
			return refusal
		}
		answer = e.accept(i.Token, worker)
		return nil
	})
	var refusal *Refusal
	switch {
	case err == nil || errors.Is(err, errSame):
		return answer, nil
	case errors.As(err, &refusal):
		return Enrolled{}, refusal
	}
	return Enrolled{}, internal(err)
}

// errSame reports that an edit changes nothing, so the file is not written.
var errSame = errors.New("nothing changes")

func active(b *book) int {
	n := 0
	for _, w := range b.Workers {
		if !w.Revoked && w.Banned == "" {
			n++
		}
	}
	return n
}

// secret returns n random bytes in base64url.
func secret(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Check returns nil if the secret is the worker's, otherwise a *Refusal. For a wrong secret and an unknown worker it
// takes the same time and returns the same message.
func (r *Registry) Check(worker, secret string) error {
	b, err := r.read()
	if err != nil {
		return internal(err)
	}
	w := b.worker(worker)
	if w.proves(secret) && r.forgotten(w) {
		return forgottenWorker(worker)
	}
	if !w.proves(secret) {
		return Refuse(CodeToken, "the coordinator does not know worker %.40q with this secret. Try: swarm join with a new invitation", worker)
	}
	if refusal := w.standing(); refusal != nil {
		return refusal
	}
	return nil
}

// standing is Check for a worker whose secret has already been checked.
func (r *Registry) standing(worker string) *Refusal {
	b, err := r.read()
	if err != nil {
		return internal(err)
	}
	w := b.worker(worker)
	if w == nil {
		return Refuse(CodeRevoked, "the coordinator no longer knows worker %.40q. Try: swarm join with a new invitation", worker)
	}
	if w.standing() == nil && r.forgotten(w) {
		return forgottenWorker(worker)
	}
	return w.standing()
}

// forgetAfter is how long a worker may be silent. After that its credentials are void.
const forgetAfter = 30 * 24 * time.Hour

func forgottenWorker(worker string) *Refusal {
	return Refuse(CodeRevoked, "worker %.40q was silent for %d days: its credentials have expired. Try: swarm join with a new invitation",
		worker, int(forgetAfter.Hours()/24))
}

// forgotten reports whether a worker has been silent for too long.
func (r *Registry) forgotten(w *registered) bool {
	now := event.Now()
	if now-w.Created < forgetAfter.Seconds() { // common case: no need to read the sightings
		return false
	}
	last, some := r.seen.of(w.Name)
	return w.forgotten(last, some, now)
}

// forgotten reports whether a worker has been silent for too long, given its last sighting. some is false if no
// sightings exist. Then their file was lost, and no worker counts as forgotten. Banned workers are never forgotten.
func (w *registered) forgotten(last float64, some bool, now float64) bool {
	return w.Banned == "" && some && now-max(w.Created, last) > forgetAfter.Seconds()
}

// forget removes the workers that have been silent for too long.
func (b *book) forget(seen map[string]sighting, now float64) {
	b.Workers = slices.DeleteFunc(b.Workers, func(w registered) bool { return w.forgotten(seen[w.Name].Time, len(seen) > 0, now) })
	_ = b.index() // the index of a valid book can't fail
}

// Invitation returns an id of the worker's invitation that is not its token, empty if unknown.
func (r *Registry) Invitation(worker string) string {
	b, err := r.read()
	if err != nil {
		return ""
	}
	if w := b.worker(worker); w != nil {
		return w.Invitation
	}
	return ""
}

// List returns the invitations, then the workers, each sorted by age.
func (r *Registry) List() ([]Entry, error) {
	b, err := r.read()
	if err != nil {
		return nil, err
	}
	seen, names := r.seen.all(), map[string]string{}
	var list []Entry
	for _, i := range b.Invitations {
		names[i.id()] = i.Name
		list = append(list, Entry{
			Name: i.Name, Kind: KindInvitation, Created: i.Created, Once: i.Once, Used: i.Used, Revoked: i.Revoked,
			Uses: i.Uses, Workers: b.brought(&i), Expires: i.Expires,
		})
	}
	for _, w := range b.Workers {
		s := seen[w.Name]
		e := Entry{
			Name: w.Name, Kind: KindWorker, Created: w.Created, Revoked: w.Revoked, Banned: w.Banned, LastSeen: s.Time, Host: s.Host,
			Invitation: names[w.Invitation],
		}
		if last := max(w.Created, s.Time); len(seen) > 0 {
			e.Expires = last + forgetAfter.Seconds()
		}
		list = append(list, e)
	}
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].Kind != list[j].Kind {
			return list[i].Kind < list[j].Kind
		}
		return list[i].Created < list[j].Created
	})
	return list, nil
}

// Revoke revokes a worker's credentials, or the invitations with that name. Repeats change nothing.
func (r *Registry) Revoke(name string) error {
	_, err := r.revoke(name, false)
	return err
}

// RevokeWithWorkers revokes the invitations with that name and the credentials of all workers that enrolled with them.
// It returns the workers' names.
func (r *Registry) RevokeWithWorkers(name string) (workers []string, err error) {
	return r.revoke(name, true)
}

func (r *Registry) revoke(name string, cascade bool) (workers []string, err error) {
	err = r.edit(func(b *book) error {
		workers = nil
		revoked := map[string]bool{}
		for i := range b.Invitations {
			if b.Invitations[i].Name == name {
				b.Invitations[i].Revoked = true
				revoked[b.Invitations[i].id()] = true
			}
		}
		w := b.worker(name)
		if w != nil && !cascade {
			w.Revoked = true
		}
		if len(revoked) == 0 && (w == nil || cascade) {
			return unknown(name)
		}
		for i := range b.Workers {
			if w := &b.Workers[i]; cascade && revoked[w.Invitation] && !w.Revoked {
				w.Revoked = true
				workers = append(workers, w.Name)
			}
		}
		return nil
	})
	return workers, err
}

// Ban suspends a worker's credentials. The reason is shown to the worker.
func (r *Registry) Ban(name, reason string) error {
	reason = Tidy(reason, MaxTextBytes)
	if strings.TrimSpace(reason) == "" {
		reason = "no reason was given"
	}
	return r.banned(name, reason)
}

// Unban restores a worker's credentials.
func (r *Registry) Unban(name string) error { return r.banned(name, "") }

func (r *Registry) banned(name, reason string) error {
	return r.edit(func(b *book) error {
		w := b.worker(name)
		if w == nil {
			return unknown(name)
		}
		w.Banned = reason
		return nil
	})
}

func unknown(name string) error {
	return fail.Usage(fmt.Errorf("there is no worker %.40q", name), "swarm workers, which lists their names")
}

// Seen records a sign of life of a worker, for List. A crash may lose the last seconds.
func (r *Registry) Seen(worker, host string) { r.seen.note(worker, host, time.Now()) }

// Watch calls changed after every change to the registry, by any process, until ctx ends.
func (r *Registry) Watch(ctx context.Context, changed func()) {
	defer r.seen.flush()
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last, _ := os.Stat(r.path())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if info, err := os.Stat(r.path()); err == nil && !same(info, last) {
			last = info
			changed()
		}
	}
}

func (r *Registry) path() string { return filepath.Join(r.dir, registryFile) }

// read returns the file's content, which the caller must not modify. It reads the file only if it was replaced.
func (r *Registry) read() (*book, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		r.file, r.book = nil, nil
		return decodeBook(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read the workers' registry: %w", err)
	}
	if r.book != nil && same(info, r.file) {
		return r.book, nil
	}
	b, err := readBook(r.path(), info)
	if err != nil {
		return nil, fmt.Errorf("read the workers' registry: %s: %w. Try: restore the file, or delete it and invite all workers again", r.path(), err)
	}
	r.file, r.book = info, b
	return b, nil
}

func readBook(path string, info fs.FileInfo) (*book, error) {
	if !info.Mode().IsRegular() || info.Size() > maxRegistryBytes {
		return nil, fmt.Errorf("it is not a file of at most %d bytes", maxRegistryBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeBook(data)
}

// same reports whether a file was not replaced.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// edit changes the file under its lock, completely or not at all.
func (r *Registry) edit(change func(*book) error) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	b, err := r.read()
	if err != nil {
		return err
	}
	b = b.clone()
	if err := change(b); err != nil {
		return err
	}
	data, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return fmt.Errorf("write the workers' registry: %w", err)
	}
	if err := files.WriteSecret(r.path(), append(data, '\n')); err != nil {
		return fmt.Errorf("write the workers' registry: %w", err)
	}
	return nil
}

// lock excludes every other process and goroutine.
func (r *Registry) lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(r.dir, registryLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the workers' registry: %w", err)
	}
	if err := files.LockWithin(file, lockPatience); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the workers' registry: %s: %w. Try: again; another swarm process may be changing it", r.dir, err)
	}
	return func() { _ = file.Close() }, nil
}

// internal returns a Refusal for an error of the coordinator. Its message does not contain the error, which may contain
// paths.
func internal(err error) *Refusal {
	return &Refusal{Code: CodeInternal, Message: "the coordinator had an internal error. Try: again; its log has details", RetryAfter: 5, cause: err}
}
