package sharedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// UplinkOptions configure a worker's uplink through a folder.
type UplinkOptions struct {
	Dir        string // the shared folder
	Experiment string
	Worker     string
	State      string        // local folder that keeps the worker's session number; empty: only the shared folder has it
	Poll       time.Duration // time between looks for answers, longer in a long wait; 0: a second
	Logger     *slog.Logger  // may be nil
}

const (
	// BeatEvery is the time between a worker's beats. Each beat is a file, and sync services have quotas.
	BeatEvery = 15 * time.Second
	// SilentAfter is the time without a new file after which the other side counts as gone.
	SilentAfter = 3 * time.Minute
)

const (
	sayWaiting = 15 * time.Second // time between log lines about a wait
	keepBeats  = 2
)

// uplink is a worker's side of the folder.
type uplink struct {
	o       UplinkOptions
	logger  *slog.Logger
	dir     string
	run     string
	session int
	out, in mailbox
	every   time.Duration // between beats
	silence time.Duration
	local   bool

	mu      sync.Mutex // guards number and pending
	number  int64
	pending map[string]bool // stems of requests that wait for an answer

	beating sync.Mutex // allows one Beat at a time; guards the fields below
	beats   []string   // this process's beat files in the folder
	beaten  time.Time  // when the last beat was written
	roster  membership.Roster
	refusal *membership.Refusal // the coordinator's answer, instead of a roster
	seen    int64               // number of the coordinator's newest beat
	heard   time.Time           // when that beat arrived
}

// DialUplink waits until ctx ends for the experiment's description to appear in the shared folder. Then it begins a
// session of the worker.
func DialUplink(ctx context.Context, o UplinkOptions) (membership.Uplink, error) {
	u, err := newUplink(o)
	if err != nil {
		return nil, fmt.Errorf("join through the shared folder: %w", err)
	}
	welcome, err := u.findExperiment(ctx)
	if err != nil {
		return nil, fmt.Errorf("join through the shared folder: %w", err)
	}
	u.run = welcome.Run
	t := baseOf(u.dir)
	u.out, u.in = newMailbox(t, u.run, o.Worker, up), newMailbox(t, u.run, o.Worker, down)
	if err := u.beginSession(); err != nil {
		return nil, fmt.Errorf("join through the shared folder: %w", explain(u.dir, err))
	}
	return u, nil
}

func newUplink(o UplinkOptions) (*uplink, error) {
	if !plain(o.Worker, membership.MaxNameBytes) {
		return nil, fmt.Errorf("worker %.40q is not a valid name: letters, digits, '.', '_' and '-' are allowed, at most %d. "+
			"Try: another --name", o.Worker, membership.MaxNameBytes)
	}
	dir, err := Folder(o.Dir, o.Experiment)
	if err != nil {
		return nil, err
	}
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &uplink{o: o, logger: logger.With("worker", o.Worker), dir: dir, every: BeatEvery, silence: SilentAfter, local: isLocal(o.Dir),
		pending: make(map[string]bool)}, nil
}

// findExperiment waits for the experiment's description.
func (u *uplink) findExperiment(ctx context.Context) (membership.Welcome, error) {
	start, said := time.Now(), time.Time{}
	for {
		if _, err := os.Stat(u.o.Dir); err != nil {
			return membership.Welcome{}, explain(u.o.Dir, err)
		}
		w, _, err := description(baseOf(u.dir))
		switch {
		case err == nil && w != nil && w.Experiment != u.o.Experiment:
			return membership.Welcome{}, fmt.Errorf("the folder %s belongs to experiment %s, not %s. Try: --experiment %[2]s",
				u.dir, membership.Tidy(w.Experiment, 64), u.o.Experiment)
		case err == nil && w != nil && w.Protocol != membership.Protocol:
			return membership.Welcome{}, membership.Refuse(membership.CodeVersion,
				"the coordinator (swarm %s) uses protocol %d, this program %d. Try: the same version of swarm on both",
				membership.Tidy(w.Version, 64), w.Protocol, membership.Protocol)
		case err == nil && w != nil && w.Run != "" && len(w.Run) <= 128:
			return *w, nil
		}
		if time.Since(said) >= sayWaiting {
			said = time.Now()
			u.logger.Debug("waiting for the experiment in the shared folder", "experiment", u.o.Experiment, "folder", u.o.Dir,
				"there", u.experiments())
		}
		if cause := sleep(ctx, u.pause(time.Since(start))); cause != nil {
			return membership.Welcome{}, fmt.Errorf("experiment %s is not in %s%s: %w. "+
				"Try: check that the coordinator runs with --shared and that the folder syncs, or a longer --wait",
				u.o.Experiment, u.o.Dir, u.others(), cause)
		}
	}
}

// experiments lists up to 16 experiments in the shared folder.
func (u *uplink) experiments() []string {
	entries, _ := os.ReadDir(filepath.Dir(u.dir)) // on an error the list is empty
	var names []string
	for _, e := range entries {
		if plain(e.Name(), 64) && e.IsDir() && len(names) < 16 {
			names = append(names, e.Name())
		}
	}
	return names
}

func (u *uplink) others() string {
	if names := u.experiments(); len(names) > 0 {
		return " (there are " + strings.Join(names, ", ") + ")"
	}
	return ""
}

// lastSession is the highest session number.
const lastSession = 999_999

// nextSession returns the number after the remembered one and those in the folder. It ignores numbers that no process
// of this worker can have reached: they were planted. After the last number it starts at 1 again. After a silent
// session, the coordinator accepts any number from the worker.
func nextSession(remembered int, there []letter) int {
	numbers := make([]int, 0, len(there))
	for _, l := range there {
		numbers = append(numbers, l.session)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if n <= remembered+longestStep {
			remembered = max(remembered, n)
		}
	}
	if remembered >= lastSession {
		return 1
	}
	return remembered + 1
}

// beginSession takes the next session number and deletes the worker's old messages.
func (u *uplink) beginSession() error {
	remembered := 0
	path := filepath.Join(u.o.State, "session")
	if u.o.State != "" {
		if err := files.MakeFolder(u.o.State, 0o700); err != nil {
			return err
		}
		if data, err := os.ReadFile(path); err == nil {
			_ = json.Unmarshal(data, &remembered) // 0 on an error: then the folder decides
		}
	}
	mine, err := u.out.letters()
	if err != nil {
		return err
	}
	theirs, err := u.in.letters()
	if err != nil {
		return err
	}
	u.session = nextSession(max(0, remembered), append(slices.Clone(mine), theirs...))
	if u.o.State != "" {
		if err := files.Write(path, fmt.Appendf(nil, "%d\n", u.session)); err != nil {
			return err
		}
	}
	return u.out.tidy(func(letter) bool { return false })
}

func (u *uplink) pause(waited time.Duration) time.Duration {
	if u.local {
		return min(max(fastPoll, waited/4), u.o.Poll)
	}
	return min(max(u.o.Poll, waited/8), longPolls*u.o.Poll)
}

// Hello introduces the worker's process.
func (u *uplink) Hello(ctx context.Context, hello membership.Hello) (w membership.Welcome, err error) {
	return w, u.call(ctx, verbHello, hello, &w)
}

// Join requests node assignments.
func (u *uplink) Join(ctx context.Context, join membership.Join) (j membership.Joined, err error) {
	return j, u.call(ctx, verbJoin, join, &j)
}

// Deliver sends events. It deletes their file once the receipt has arrived.
func (u *uplink) Deliver(ctx context.Context, delivery membership.Delivery) (r membership.Receipt, err error) {
	return r, u.call(ctx, verbDeliver, delivery, &r)
}

// call writes a request and waits for its answer. If the folder is full or unavailable, it retries until ctx ends.
func (u *uplink) call(ctx context.Context, verb string, body, answer any) error {
	e := envelope{Verb: verb, Session: u.session, Number: u.next()}
	u.expect(e.stem(), true)
	name := ""
	defer func() { u.expect(e.stem(), false); u.drop(name) }()
	start, said := time.Now(), time.Now()
	var failure error
	for {
		if name == "" {
			var refusal *membership.Refusal
			if name, failure = u.out.post(e, body); errors.As(failure, &refusal) {
				return refusal
			} else if failure != nil {
				name = ""
			}
		}
		if name != "" {
			reply, found, err := u.answer(e)
			failure = err
			if found && reply.Refusal != nil {
				return reply.Refusal.Shown()
			}
			if found {
				if err := json.Unmarshal(reply.Body, answer); err != nil {
					return fmt.Errorf("the coordinator's answer to %s: %w", verb, err)
				}
				return nil
			}
		}
		if time.Since(said) >= sayWaiting {
			said = time.Now()
			u.logger.Debug("waiting for the coordinator's answer through the shared folder", "to", verb, "seconds", int(time.Since(start).Seconds()))
		}
		if cause := sleep(ctx, u.pause(time.Since(start))); cause != nil {
			if failure != nil {
				return fmt.Errorf("%s through the shared folder: %w (last: %v)", verb, cause, explain(u.dir, failure))
			}
			return fmt.Errorf("%s through the shared folder: no answer yet: %w", verb, cause)
		}
	}
}

func (u *uplink) next() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	return u.number
}

// expect records whether a request waits for its answer.
func (u *uplink) expect(stem string, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if waits {
		u.pending[stem] = true
	} else {
		delete(u.pending, stem)
	}
}

// needed reports whether one of this worker's messages must stay.
func (u *uplink) needed(l letter) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pending[l.stem] || l.session > u.session || slices.Contains(u.beats, l.name)
}

// drop deletes a request that was answered or abandoned.
func (u *uplink) drop(name string) {
	if name != "" {
		_ = u.out.remove(name) // the next session deletes remaining files
	}
}

// answer looks for the answer to a request.
func (u *uplink) answer(e envelope) (envelope, bool, error) {
	letters, err := u.in.letters()
	if err != nil {
		return envelope{}, false, err
	}
	for _, l := range letters {
		if l.verb != e.Verb || l.session != e.Session || l.number != e.Number {
			continue
		}
		if reply, err := u.in.open(l); err == nil {
			return reply, true, nil
		}
	}
	return envelope{}, false, nil
}

// Close ends the session. The last beat stays in the folder, so that the coordinator learns that the worker left.
func (u *uplink) Close() error { return nil }
