// Package recorded opens the folder of a recorded run (its nodes' models, checkpoints and journals) to evaluate,
// prompt, save or verify them. It decides which node and weights a name means, and where one engine fits. It needs
// the home, the database and Python, and changes nothing of the run. It must not import launcher/study or packages
// that start a swarm's nodes.
package recorded

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// OpenReader opens the database with the runs.
type OpenReader func(context.Context) (*store.Reader, error)

// Run returns the run with that name, or the newest run of that experiment.
func (open OpenReader) Run(ctx context.Context, name string) (store.Run, error) {
	reader, err := open(ctx)
	if err != nil {
		return store.Run{}, err
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return store.Run{}, lifecycle.NotFound(err, name)
	}
	return snapshot.Run, nil
}

// BestNode chooses one of a run's nodes with a folder on this host.
func (open OpenReader) BestNode(ctx context.Context, home layout.Home, run store.Run) (evaluation.Choice, error) {
	if err := coordinator.ForeignNodes(run); err != nil {
		return evaluation.Choice{}, err
	}
	known, err := NodeFolders(home, run)
	if err != nil {
		return evaluation.Choice{}, err
	}
	if len(known) == 0 {
		return evaluation.Choice{}, fail.Hint(fmt.Errorf("run %s has no node on this host", run.Run), "swarm status "+run.Run)
	}
	reader, err := open(ctx)
	if err != nil {
		return evaluation.Choice{}, err
	}
	defer reader.Close()
	evals, err := reader.Evals(ctx, run.Run)
	if err != nil {
		return evaluation.Choice{}, err
	}
	snapshot, err := reader.Snapshot(ctx, run.Run)
	if err != nil {
		return evaluation.Choice{}, err
	}
	untrained := func(node string) bool {
		return slices.ContainsFunc(snapshot.Nodes, func(n store.Node) bool { return n.Node == node && n.GenerateOnly })
	}
	if trained := slices.DeleteFunc(slices.Clone(known), untrained); len(trained) > 0 {
		known = trained // nodes that only generate have no weights of their own
	}
	return bestNode(known, evals, snapshot.Recent), nil
}

// NodeName returns the name of a run's node with a folder on this host, from its name or number.
func NodeName(home layout.Home, run store.Run, name string) (string, error) {
	if index, err := strconv.Atoi(name); err == nil {
		name = fit.NodeName(index)
	}
	known, err := NodeFolders(home, run)
	if err != nil {
		return "", err
	}
	if !slices.Contains(known, name) {
		return "", fail.Usage(fmt.Errorf("run %s has no node %q here: it has %s", run.Run, name, strings.Join(known, ", ")), "swarm status "+run.Run)
	}
	return name, nil
}

// NodeFolders returns the names of a run's nodes with a folder on this host, in order.
func NodeFolders(home layout.Home, run store.Run) ([]string, error) {
	entries, err := os.ReadDir(home.Run(run.Run))
	if err != nil {
		return nil, home.RunError(run.Run, err)
	}
	var known []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), "node_") {
			known = append(known, entry.Name())
		}
	}
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(configs.NodeIndex(a)-configs.NodeIndex(b), strings.Compare(a, b)) })
	return known, nil
}
