package workers

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// QuestionFiles are the keys of files that a worker needs as exact copies of the coordinator's. Their content
// determines a node's questions.
var QuestionFiles = []string{"tasks.file", "tasks.words"}

// SameFiles rejects question files whose content differs from the coordinator's, because the coordinator would
// reject every rollout. inputs are hashes by key.
func (w *Worker) SameFiles(inputs map[string]string) error {
	for _, key := range QuestionFiles {
		if is, there := inputs[key], w.welcome.Inputs[key]; is != there {
			return fail.Usage(fmt.Errorf("%s has different contents here and at the coordinator (sha256 %.12s, there %.12s)", key, cmp.Or(is, "none"), cmp.Or(there, "none")),
				"a copy of the coordinator's file, or none if it has none")
		}
	}
	return nil
}

// Differences lists how run differs from the rest of the swarm, one line each. model is the name of run's model.
func (w *Worker) Differences(run Run, model string) (lines []string) {
	theirs, err := w.Config()
	if err != nil {
		return nil
	}
	ours := run.Config
	if ours.Model != theirs.Model {
		lines = append(lines, fmt.Sprintf("this host trains %s, the coordinator %s: rollouts are sent as text and encoded again by each host", model, theirs.Model))
	} else if is, there := run.Inputs["model"], w.welcome.Inputs["model"]; there != "" && is != there {
		lines = append(lines, fmt.Sprintf("the first weights of %s differ here and at the coordinator (sha256 %.12s, there %.12s)", model, is, there))
	}
	if w.welcome.Version != run.Version {
		lines = append(lines, fmt.Sprintf("this is swarm %s, the coordinator's %s", run.Version, w.welcome.Version))
	}
	for _, key := range []struct{ name, here, there string }{
		{"precision", ours.Precision, theirs.Precision}, {"sync", ours.Sync, theirs.Sync},
	} {
		if key.here != key.there {
			lines = append(lines, fmt.Sprintf("%s is %s here, %s at the coordinator", key.name, key.here, key.there))
		}
	}
	return lines
}

// requestTimeout bounds a worker's requests to a coordinator after the run has ended.
const requestTimeout = 30 * time.Second

// DeliverRest delivers the remaining events of a run that is done on this host.
func (w *Worker) DeliverRest(ctx context.Context, run Run) error {
	outbox, err := membership.OpenOutbox(OutboxDir(run.Dir), run.Logger)
	if err != nil {
		return err
	}
	w.outbox = outbox
	if events, _ := outbox.Pending(); events == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.patience(requestTimeout))
	defer cancel()
	client := membership.DeliveryClient{Uplink: w.uplink, Outbox: outbox, Run: w.welcome.Run, Process: w.process, Silence: w.patience(0), Logger: run.Logger}
	return client.Drain(ctx)
}

// IsPart reports whether a run of a home is part of another host's run. Such a run has an outbox in its folder.
func IsPart(home layout.Home, run string) bool {
	_, err := os.Stat(OutboxDir(home.Run(run)))
	return err == nil
}
