package terminal

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

const (
	plainEvery = 10 * time.Second // minimum interval between lines of rounds
	plainQuiet = time.Minute      // maximum interval without a line
	lastPoll   = 2 * time.Second  // limit of the final poll
)

// Plain writes one line at the start, one for completed rounds at most every 10 s, one per minute if nothing happens,
// and every event immediately. It runs until ctx ends, which is not an error, and then writes what has happened since.
// It reports a failing poll once.
func Plain(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	p := plain{location: cfg.Location}
	seen := 0
	step := func(ctx context.Context, last bool) error {
		status, err := cfg.Poll(ctx)
		var lines []feedLine
		lines, seen = cfg.Feed.since(seen)
		text := p.step(cleanStatus(status), err, lines, cfg.Now(), last)
		if text == "" {
			return nil
		}
		if charset.ASCIIOnly(cfg.Environ) {
			text = charset.Cells(text)
		}
		if _, err := io.WriteString(cfg.Out, text); err != nil {
			return fmt.Errorf("write progress: %w", err)
		}
		return nil
	}
	for ctx.Err() == nil {
		began := time.Now()
		if err := step(ctx, false); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause(cfg.Interval, time.Since(began))):
		}
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPoll)
	defer cancel()
	return step(final, true)
}

// plain decides what to write.
type plain struct {
	location *time.Location
	started  bool
	round    int // round of the newest line
	at       time.Time
	trouble  string
}

// step returns the lines for a poll's result, empty or ending in a newline. With last set, it includes rounds that were
// held back.
func (p *plain) step(x stats.Status, pollErr error, lines []feedLine, now time.Time, last bool) string {
	var b strings.Builder
	if pollErr == nil && !p.started {
		p.started, p.at, p.round = true, now, x.Round
		fmt.Fprintln(&b, wording.Dotted(x.Experiment, "run "+x.Run, x.Model, x.Device,
			units.Plural(max(x.NodesPlanned, len(x.Nodes)), "node"), units.Plural(x.Rounds, "round"), resumed(x)))
	}
	for _, l := range lines {
		fmt.Fprintln(&b, l.stamped(p.location))
	}
	trouble := ""
	if pollErr != nil {
		trouble = noNews(pollErr)
	}
	if trouble != "" && p.trouble == "" && !last {
		fmt.Fprintln(&b, trouble)
	}
	p.trouble = trouble
	if pollErr != nil {
		return b.String()
	}
	quiet := now.Sub(p.at)
	advanced := x.Round != p.round
	if advanced && (quiet >= plainEvery || last || x.Round == x.Rounds) || quiet >= plainQuiet {
		fmt.Fprintln(&b, progressLine(x))
		p.round, p.at = x.Round, now
	}
	return b.String()
}

// noNews describes in one line why a poll failed.
func noNews(err error) string {
	return "no news: " + strings.Join(strings.Fields(charset.Line(err.Error())), " ")
}

const (
	pollShare = 30               // a poll may take this fraction of the time: 1/pollShare
	pollMost  = 10 * time.Second // maximum pause between polls, however long a poll takes
)

// pause returns the time to wait after a poll that took a given time, so that polling a large swarm does not slow down
// its host.
func pause(interval, took time.Duration) time.Duration {
	return max(interval, min((pollShare-1)*took, pollMost))
}

// progressLine describes the progress of the run: `round 12/40 · reward 0.214 · 8/8 nodes · 3.1 s/round · eta 1m27s ·
// mem 1.9 GB`.
func progressLine(x stats.Status) string {
	pace, eta, what, cost := "", "", "", ""
	if x.SecondsPerRound != nil {
		pace = perRound(*x.SecondsPerRound)
	}
	if x.ETASeconds != nil && x.Round < x.Rounds {
		eta = "eta " + units.Span(*x.ETASeconds)
	}
	if x.Round == 0 {
		what = states(x.Nodes)
	}
	if x.Cost != nil {
		cost = units.Money(*x.Cost, x.PriceCurrency)
		if x.ProjectedCost != nil && x.Round < x.Rounds {
			cost += " of about " + units.MoneyAbout(*x.ProjectedCost, x.PriceCurrency)
		}
	}
	return wording.Dotted(fmt.Sprintf("round %d/%d", x.Round, x.Rounds), "reward "+reward(x.Reward), alive(x), workers(x), what, pace, eta,
		"mem "+units.BytesMeasured(x.MemoryBytes), cost)
}

// states counts the nodes by state, in the order of first occurrence.
func states(nodes []stats.NodeStatus) string {
	var order []string
	counts := map[string]int{}
	for _, n := range nodes {
		if counts[n.State] == 0 {
			order = append(order, n.State)
		}
		counts[n.State]++
	}
	for i, s := range order {
		order[i] = fmt.Sprintf("%d %s", counts[s], s)
	}
	return strings.Join(order, ", ")
}
