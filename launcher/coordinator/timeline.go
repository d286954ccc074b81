package coordinator

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Timeline copies a run's recorded events into a feed.
type Timeline struct {
	Reader *store.Reader
	Run    string
	Feed   *terminal.Feed
	seen   int64
}

const (
	timelinePage = 500
	timelinePast = 10 * 60 // seconds before the first look from which events are shown
)

// Begin adds recent events and skips older ones.
func (t *Timeline) Begin(ctx context.Context) error {
	since := event.Now() - timelinePast
	return t.pages(ctx, func(e event.Event) {
		if e.Time >= since {
			t.Feed.Add(e)
		}
	})
}

// Update adds new events.
func (t *Timeline) Update(ctx context.Context) error { return t.pages(ctx, t.Feed.Add) }

func (t *Timeline) pages(ctx context.Context, take func(event.Event)) error {
	for {
		entries, err := t.Reader.Timeline(ctx, t.Run, t.seen, timelinePage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			t.seen = e.ID
			take(e.Event)
		}
		if len(entries) < timelinePage {
			return nil
		}
	}
}
