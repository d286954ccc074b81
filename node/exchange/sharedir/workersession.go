package sharedir

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// workerSession is the admission server's state of one worker. Only one goroutine at a time uses it.
type workerSession struct {
	server  *server
	worker  string
	in, out mailbox // the worker's messages, and the answers

	met      bool
	looked   bool   // all messages have been read once
	next     letter // the first message that the last look did not open; zero: it opened all
	attended int
	session  int              // the newest
	served   bool             // this process has answered a request of this session
	rival    bool             // another process of the worker was refused while this session is active
	answered map[string]int64 // highest answered number of the session, by verb
	replies  map[string]letter

	beat     membership.Beat
	beatSeen int64 // number of the newest beat
	beatAt   time.Time
	since    time.Time // when this process first saw the session, or first looked for messages
	left     bool

	number   int64 // of the last beat to the worker
	wrote    []string
	roster   membership.Roster
	rosterAt time.Time
	refused  string
}

func newWorkerSession(c *server, worker string) *workerSession {
	return &workerSession{server: c, worker: worker, in: newMailbox(c.tree, c.run, worker, up), out: newMailbox(c.tree, c.run, worker, down)}
}

// attend answers new messages, and sends the worker's beats to the admission server.
func (v *workerSession) attend(ctx context.Context) error {
	if !v.met {
		if err := v.meet(); err != nil {
			return err
		}
	}
	letters, err := v.in.letters()
	if err != nil {
		return err
	}
	waiting := make(map[string]bool, len(letters))
	for _, l := range letters {
		waiting[l.stem] = true
	}
	if err := v.receiveAll(ctx, letters); err != nil || ctx.Err() != nil {
		return err
	}
	if err := v.answerBeat(ctx); err != nil {
		return err
	}
	if err := v.clear(waiting); err != nil {
		return err
	}
	if v.attended++; v.attended%tidyEvery == 0 {
		return v.out.tidy(func(l letter) bool { _, reply := v.replies[l.stem]; return reply || slices.Contains(v.wrote, l.name) })
	}
	return nil
}

// tidyEvery is the number of looks at a worker's messages between deletions of restored answers.
const tidyEvery = 30

// meet reads the answers of the coordinator's previous process.
func (v *workerSession) meet() error {
	letters, err := v.out.letters()
	if err != nil {
		return err
	}
	v.answered, v.replies = make(map[string]int64), make(map[string]letter)
	slices.SortFunc(letters, func(a, b letter) int { return cmp.Compare(a.number, b.number) })
	for _, l := range letters {
		v.session = max(v.session, l.session)
		v.number = max(v.number, l.number)
		if l.verb == verbBeat {
			v.wrote = append(v.wrote, l.name)
		}
	}
	for _, l := range letters {
		if l.verb == verbBeat {
			continue
		}
		v.replies[l.stem] = l
		if l.session == v.session {
			v.answered[l.verb] = max(v.answered[l.verb], l.number)
		}
	}
	v.met, v.since = true, time.Now()
	return nil
}

// receiveAll handles the new messages in their order, at most maxLetters of them. The next look begins with the first
// one left and comes back to the oldest, so that planted messages delay the worker's own but never hide them.
func (v *workerSession) receiveAll(ctx context.Context, letters []letter) error {
	first, _ := slices.BinarySearchFunc(letters, v.next, inOrder)
	opened := 0
	for i := range letters {
		l := letters[(first+i)%len(letters)]
		v.looked = v.looked || first+i >= len(letters)
		if ctx.Err() != nil {
			return nil
		}
		if !v.isNew(l) {
			continue
		}
		if opened++; opened > maxLetters {
			v.next = l
			return nil
		}
		if err := v.receive(ctx, l); err != nil {
			return err
		}
	}
	v.looked, v.next = true, letter{}
	return nil
}

// isNew reports whether a message belongs to the newest session and its number exceeds the last answered number of its
// verb. Deleted messages may come back, but their numbers are old.
func (v *workerSession) isNew(l letter) bool {
	switch {
	case l.session < v.session && (l.verb == verbBeat || !v.dead()), l.session == v.session && l.verb != verbBeat && l.number <= v.answered[l.verb],
		l.session == v.session && l.verb == verbBeat && l.number <= v.beatSeen:
		return false
	}
	_, answered := v.replies[l.stem]
	return !answered
}

// receive handles a new message.
func (v *workerSession) receive(ctx context.Context, l letter) error {
	e, err := v.in.open(l)
	switch {
	case errors.Is(err, errPartial):
		return nil
	case err != nil:
		v.server.report.warn("worker "+v.worker, fmt.Sprintf("skipping a message of worker %s in the shared folder: %v", v.worker, err))
		return nil
	}
	if l.session > v.session && l.verb != verbHello && v.alive() {
		return nil // from a process that has not been admitted; its hello follows
	}
	if l.verb == verbBeat {
		v.turnTo(l.session)
		return v.acceptBeat(l, e)
	}
	body, refusal := v.serve(ctx, e)
	if ctx.Err() != nil {
		return nil // the next coordinator answers
	}
	if refusal != nil && refusal.Code == membership.CodeName && l.session > v.session && l.verb == verbHello {
		v.rival = true // the older process continues while it shows signs of life
	} else {
		v.turnTo(l.session)
		v.answered[l.verb], v.served = l.number, true
	}
	e.Refusal, e.Body = refusal, nil
	name, err := v.out.post(e, body)
	if err != nil {
		return err
	}
	v.replies[e.stem()] = letter{entry: entry{name: name, stem: e.stem()}, verb: e.Verb, session: e.Session, number: e.Number}
	return nil
}

// turnTo begins another session of the worker.
func (v *workerSession) turnTo(session int) {
	if session == v.session {
		return
	}
	v.since = time.Now()
	v.session, v.served, v.rival, v.left, v.beatSeen, v.beatAt = session, false, false, false, 0, time.Time{}
	v.roster, v.rosterAt, v.refused = membership.Roster{}, time.Time{}, ""
	clear(v.answered)
}

// dead reports whether the session has been silent for so long that a request in any other session replaces it.
// Otherwise a planted message with the last number would lock the worker out forever. An old request that comes back is
// harmless: it gets its old answer, and the next real request counts again.
func (v *workerSession) dead() bool {
	silence := v.server.o.Silence
	return time.Since(v.since) > silence && (v.beatAt.IsZero() || time.Since(v.beatAt) > silence)
}

// alive reports whether the session's beats still arrive. If another process waits to replace it, the session has only
// a third of the time.
func (v *workerSession) alive() bool {
	silence := v.server.o.Silence
	if v.rival {
		silence /= 3
	}
	return !v.beatAt.IsZero() && time.Since(v.beatAt) <= silence
}

// serve passes a request to the admission server.
func (v *workerSession) serve(ctx context.Context, e envelope) (any, *membership.Refusal) {
	if e.Protocol != membership.Protocol {
		return nil, membership.Refuse(membership.CodeVersion,
			"the worker uses protocol %d, the coordinator %d. Try: the same version of swarm on both", e.Protocol, membership.Protocol)
	}
	switch e.Verb {
	case verbHello:
		return answer(ctx, v, e, v.server.admission.Hello)
	case verbJoin:
		return answer(ctx, v, e, v.server.admission.Join)
	default:
		return answer(ctx, v, e, v.server.admission.Deliver)
	}
}

func answer[Q, A any](ctx context.Context, v *workerSession, e envelope, ask func(context.Context, string, Q) (A, error)) (any, *membership.Refusal) {
	var question Q
	if err := json.Unmarshal(e.Body, &question); err != nil {
		return nil, membership.Refuse(membership.CodeMalformed, "the %s can't be read: %.200s", e.Verb, err)
	}
	reply, err := ask(ctx, v.worker, question)
	if err != nil {
		return nil, refusalOf(err)
	}
	return reply, nil
}

// acceptBeat records the worker's newest beat. A beat that was already there at this process's first look may be from a
// worker that has ended, so it is no sign of life.
func (v *workerSession) acceptBeat(l letter, e envelope) error {
	var beat membership.Beat
	if e.Protocol != membership.Protocol || json.Unmarshal(e.Body, &beat) != nil {
		return nil
	}
	if v.served || v.looked {
		v.beatAt = time.Now()
	}
	v.beat, v.beatSeen, v.left = beat, l.number, false
	return nil
}

// answerBeat sends a beat to the admission server unless the worker is silent. It writes the roster if it has changed
// or is old.
func (v *workerSession) answerBeat(ctx context.Context) error {
	if v.beatSeen == 0 || v.left || !v.alive() {
		return nil
	}
	beat := v.beat
	beat.Roster = v.roster.Version
	roster, err := v.server.admission.Beat(ctx, v.worker, beat)
	if ctx.Err() != nil {
		return nil
	}
	v.left = beat.Left
	e := envelope{Verb: verbBeat, Session: v.session, Number: v.number + 1}
	if err != nil {
		refusal := refusalOf(err)
		if refusal.Message == v.refused {
			return nil
		}
		e.Refusal, v.refused = refusal, refusal.Message
		return v.writeBeat(e, nil)
	}
	members := roster.Members != nil
	if !members {
		roster.Members = v.roster.Members
	}
	age := time.Since(v.rosterAt)
	another := members || roster.Version != v.roster.Version || roster.Ended != v.roster.Ended || roster.Round != v.roster.Round && age > rosterSoonest
	if v.refused == "" && !another && age < rosterEvery {
		return nil
	}
	if err := v.writeBeat(e, roster); err != nil {
		return err
	}
	v.roster, v.rosterAt, v.refused = roster, time.Now(), ""
	return nil
}

func (v *workerSession) writeBeat(e envelope, body any) error {
	name, err := v.out.post(e, body)
	if err != nil {
		return err
	}
	v.number = e.Number
	v.wrote = append(v.wrote, name)
	for len(v.wrote) > keepBeats {
		if err := v.out.remove(v.wrote[0]); err != nil {
			return err
		}
		v.wrote = v.wrote[1:]
	}
	return nil
}

// keepReplies is the maximum number of answers kept per verb if their requests stay: the worker can't delete a copy
// that exists only on this machine.
const keepReplies = 16

// clear deletes the answers to deleted requests, because the worker has received these answers. It deletes at most
// maxLetters of them.
func (v *workerSession) clear(waiting map[string]bool) error {
	removed := 0
	for stem, reply := range v.replies {
		if waiting[stem] && (reply.session > v.session || reply.number > v.answered[reply.verb]-keepReplies) {
			continue
		}
		if removed++; removed > maxLetters {
			return nil
		}
		if err := v.out.remove(reply.name); err != nil {
			return err
		}
		delete(v.replies, stem)
	}
	return nil
}
