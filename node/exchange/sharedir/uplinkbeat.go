package sharedir

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Beat writes the worker's beat if it is due or the last one. It returns the coordinator's newest roster, because beats
// are not answered one by one. It waits for the first roster of a session. It returns an error once nothing new has
// arrived for SilentAfter.
func (u *uplink) Beat(ctx context.Context, beat membership.Beat) (membership.Roster, error) {
	u.beating.Lock()
	defer u.beating.Unlock()
	start, said := time.Now(), time.Now()
	for {
		failure := u.writeBeat(beat)
		if err := u.readBeat(); err != nil {
			failure = err
		}
		switch {
		case u.refusal != nil:
			return membership.Roster{}, u.refusal
		case beat.Left && failure == nil:
			return u.current(beat.Roster), nil // the worker does not wait for an answer to its last beat
		case u.seen > 0 && failure != nil:
			return membership.Roster{}, fmt.Errorf("heartbeat through the shared folder: %w", explain(u.dir, failure))
		case u.seen > 0 && time.Since(u.heard) > u.silence:
			return membership.Roster{}, fmt.Errorf("nothing new from the coordinator in the shared folder for %v. "+
				"Try: check that it runs and that the folder syncs",
				time.Since(u.heard).Round(time.Second))
		case u.seen > 0:
			return u.current(beat.Roster), nil
		}
		if time.Since(said) >= sayWaiting {
			said = time.Now()
			u.logger.Info("waiting for the coordinator's roster through the shared folder", "seconds", int(time.Since(start).Seconds()))
		}
		if cause := sleep(ctx, u.pause(time.Since(start))); cause != nil {
			if failure != nil {
				return membership.Roster{}, fmt.Errorf("heartbeat through the shared folder: %w (last: %v)", cause, explain(u.dir, failure))
			}
			return membership.Roster{}, fmt.Errorf("heartbeat through the shared folder: no answer yet: %w", cause)
		}
	}
}

// current returns the newest roster, without the members if the worker already has this version.
func (u *uplink) current(known int64) membership.Roster {
	r := u.roster
	if r.Version == known {
		r.Members = nil
	}
	return r
}

// writeBeat writes a beat and deletes old ones beyond keepBeats.
func (u *uplink) writeBeat(beat membership.Beat) error {
	if !beat.Left && !u.beaten.IsZero() && time.Since(u.beaten) < u.every {
		return nil
	}
	name, err := u.out.post(envelope{Verb: verbBeat, Session: u.session, Number: u.next()}, beat)
	if err != nil {
		return err
	}
	u.beaten = time.Now()
	u.beats = append(u.beats, name)
	for len(u.beats) > keepBeats {
		if err := u.out.remove(u.beats[0]); err != nil {
			return err
		}
		u.beats = u.beats[1:]
	}
	return u.out.tidy(u.needed)
}

// readBeat reads the coordinator's newest beat of this session.
func (u *uplink) readBeat() error {
	letters, err := u.in.letters()
	if err != nil {
		return err
	}
	var newest *envelope
	for _, l := range letters {
		if l.verb != verbBeat || l.session != u.session || l.number <= u.seen || newest != nil && l.number <= newest.Number {
			continue
		}
		if e, err := u.in.open(l); err == nil {
			newest = &e
		}
	}
	if newest == nil {
		return nil
	}
	roster := membership.Roster{}
	if newest.Refusal == nil && json.Unmarshal(newest.Body, &roster) != nil {
		return nil
	}
	u.seen, u.heard, u.refusal = newest.Number, time.Now(), nil
	if newest.Refusal == nil {
		u.roster = roster
	} else {
		u.refusal = newest.Refusal.Shown()
	}
	return nil
}
