package dashboard

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// known64 returns nil for an unset time.
func known64(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func (s *Server) getRuns(ctx context.Context, r *http.Request) (any, error) {
	if err := readParams(r).done(); err != nil {
		return nil, err
	}
	return s.board.all(ctx)
}

// run returns the state of the run in a request's path.
func (s *Server) run(ctx context.Context, r *http.Request) (*known, error) {
	name := r.PathValue("run")
	if len(name) > maxName {
		return nil, badRequest("a run's name of %d bytes, at most %d are read", len(name), maxName)
	}
	return s.board.find(ctx, name)
}

// runDocument describes one run, without its rounds.
type runDocument struct {
	Now      float64         `json:"now"`
	Status   stats.Status    `json:"status"`
	Config   json.RawMessage `json:"config"`
	Plan     json.RawMessage `json:"plan"`
	Versions json.RawMessage `json:"versions"`
	Attempts []attempt       `json:"attempts"`
}

type attempt struct {
	Attempt int      `json:"attempt"` // from 1
	Started float64  `json:"started"`
	Seen    float64  `json:"seen"`
	Ended   *float64 `json:"ended"`
	State   string   `json:"state"`
	Message string   `json:"message"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
}

func (s *Server) getRun(ctx context.Context, r *http.Request) (any, error) {
	if err := readParams(r).done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	run := k.snapshot.Run
	d := runDocument{
		Now: event.Now(), Status: k.status, Config: object(run.Config), Plan: object(run.Plan), Versions: object(run.Versions),
		Attempts: make([]attempt, len(k.snapshot.Attempts)),
	}
	for i, a := range k.snapshot.Attempts {
		d.Attempts[i] = attempt{a.Attempt, a.Started, a.Seen, known64(a.Ended), a.State, a.Message, a.Host, a.PID}
	}
	return d, nil
}

func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
