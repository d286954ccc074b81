package workers

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Listing is the output of swarm workers -o json.
type Listing struct {
	Run     string        `json:"run"`    // run that this home coordinates; empty: none
	Joined  string        `json:"joined"` // this home's newest part in another host's run; empty: none
	Workers []workers.Row `json:"workers"`
	Listed  []Listed      `json:"listed"`
}

// Listed is a worker or an invitation, with its right to join.
type Listed struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"` // worker, invitation
	Created  float64 `json:"created"`
	LastSeen float64 `json:"last_seen"` // 0: never
	Host     string  `json:"host"`
	Revoked  bool    `json:"revoked"`
	Banned   string  `json:"banned"` // reason; empty: not banned
	Once     bool    `json:"once"`
	Used     bool    `json:"used"`

	Uses    int `json:"uses,omitempty"`    // for an invitation: maximum number of workers; 0: no limit
	Workers int `json:"workers,omitempty"` // for an invitation: number of workers admitted with it
	// 0: never; a worker's expiry moves on while the worker is in contact
	Expires    float64 `json:"expires,omitempty"`
	Invitation string  `json:"invitation,omitempty"` // for a worker: the invitation that it used; empty: unknown
}

// List returns the workers of a run, and the right to join of workers and invitations. name is that of a run or an
// experiment; empty: the newest run that this home coordinates.
func List(ctx context.Context, home layout.Home, reader *store.Reader, name string) (Listing, error) {
	document := Listing{Workers: []workers.Row{}, Listed: []Listed{}}
	var err error
	if document.Run, document.Joined, err = listedRun(ctx, home, reader, name); err != nil {
		return document, err
	}
	if document.Run != "" {
		if document.Workers, err = query.Workers(ctx, reader, document.Run); err != nil {
			return document, err
		}
	}
	if _, err := os.Stat(home.Workers()); err == nil {
		registry, err := membership.OpenRegistry(home.Workers())
		if err != nil {
			return document, err
		}
		entries, err := registry.List()
		if err != nil {
			return document, err
		}
		for _, e := range entries {
			document.Listed = append(document.Listed, Listed{
				e.Name, e.Kind, e.Created, e.LastSeen, e.Host, e.Revoked, e.Banned, e.Once, e.Used, e.Uses, e.Workers, e.Expires, e.Invitation,
			})
		}
	}
	return document, nil
}

// Print prints the listing. now is in Unix seconds.
func (d Listing) Print(p *table.Page, now float64) {
	switch {
	case len(d.Workers) > 0:
		p.Printf("Workers of %s\n", d.Run)
		p.Table(workersTable(d.Workers, now))
	case d.Run != "":
		p.Printf("No worker has joined run %s.\n", d.Run)
	case d.Joined != "":
		p.Printf("This host coordinates no run. It has joined another host's (%s), where swarm workers lists the workers.\n", d.Joined)
	default:
		p.Println("No run is recorded.")
	}
	if len(d.Listed) > 0 {
		p.Println("\nAdmission")
		p.Table(listedTable(d.Listed, now))
	}
}

func workersTable(rows []workers.Row, now float64) *table.Table {
	t := table.New(
		table.Column{Title: "WORKER"}, table.Column{Title: "STATE"}, table.Column{Title: "NODES", Right: true, Drop: 1},
		table.Column{Title: "ROUNDS", Right: true}, table.Column{Title: "DEVICE", Drop: 4, Max: 24}, table.Column{Title: "HOST", Drop: 5, Max: 24},
		table.Column{Title: "USEFUL", Right: true, Drop: 2}, table.Column{Title: "DRAWN", Right: true, Drop: 6},
		table.Column{Title: "REFUSED", Right: true, Drop: 3}, table.Column{Title: "SEEN", Drop: 1}, table.Column{Title: "WHY", Wrap: true, Optional: true},
	)
	for _, r := range rows {
		useful := "–"
		if r.RolloutsAvailable+r.RolloutsRejected > 0 {
			useful = fmt.Sprintf("%.0f %%", 100*r.UsefulRatio)
		}
		t.Add(charset.Shown(r.Worker), r.State, strconv.Itoa(r.Nodes), strconv.Itoa(r.Rounds), charset.Shown(r.Device), charset.Shown(r.Host), useful,
			strconv.Itoa(r.RolloutsUsed), strconv.FormatInt(r.Refused, 10), units.Ago(r.LastSeen, now), charset.Shown(r.Reason))
	}
	return t
}

func listedTable(rows []Listed, now float64) *table.Table {
	t := table.New(table.Column{Title: "NAME"}, table.Column{Title: "KIND", Drop: 2}, table.Column{Title: "STATE", Wrap: true}, table.Column{Title: "SEEN", Drop: 1})
	for _, e := range rows {
		state := "may join"
		switch {
		case e.Banned != "":
			state = "banned: " + charset.Shown(e.Banned)
		case e.Revoked:
			state = "revoked"
		case e.Once && e.Used:
			state = "used"
		case e.Expires > 0 && now >= e.Expires:
			state = "expired"
		case e.Uses > 1:
			state = fmt.Sprintf("has admitted %d of %d", e.Workers, e.Uses)
		case e.Invitation != "":
			state = "may join, through " + charset.Shown(e.Invitation)
		}
		seen := units.Ago(e.LastSeen, now)
		if e.Kind == "invitation" { // the workers show its use
			seen = ""
		}
		t.Add(charset.Shown(e.Name), e.Kind, state, seen)
	}
	return t
}

// listedRun returns the run with that name, or the newest run that this home coordinates, or "" if there is none.
// joined is this home's newest part in another host's run.
func listedRun(ctx context.Context, home layout.Home, reader *store.Reader, name string) (run, joined string, err error) {
	runs, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return "", "", err
	}
	slices.SortStableFunc(runs, func(a, b store.Totals) int { // newest first, by the last start
		return cmp.Compare(max(b.Started, b.Resumed), max(a.Started, a.Resumed))
	})
	for _, r := range runs {
		switch part := IsPart(home, r.Run.Run); {
		case r.Imported():
		case part && joined == "":
			joined = r.Run.Run
		case !part && run == "":
			run = r.Run.Run
		}
	}
	if name == "" {
		return run, joined, nil
	}
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return "", joined, lifecycle.NotFound(err, name)
	}
	if IsPart(home, snapshot.Run.Run) {
		return "", joined, fail.Usage(
			fmt.Errorf("run %s is this host's part of a run that another host coordinates: only that host lists the workers", snapshot.Run.Run),
			"swarm workers on the coordinator, or here: swarm status "+snapshot.Run.Run)

	}
	return snapshot.Run.Run, joined, nil
}
