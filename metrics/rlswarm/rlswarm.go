// Package rlswarm reads the experiment folder of rl-swarm (Elrashid/rl-swarm) and converts it to a run. The folder may
// be damaged, incomplete or untrusted: sizes and counts are bounded, links out of it are not followed, and the Report
// lists unreadable parts. The package writes only the run that Import records in a database.
//
// rl-swarm sums a node's rewards over its I·G completions of a round, and logs each sum twice. The imported round has
// the mean, as everywhere in this program, together with the sum and the number of records.
package rlswarm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Format is the name of rl-swarm's format in the database.
const Format = "rl-swarm"

// Options supply facts that a folder lacks. Zero values are unset, except for NumTransplantTrees and Seed, where nil is
// unset.
type Options struct {
	Name               string // of the experiment; empty: the folder's name
	Model              string
	NumTrainSamples    int
	NumTransplantTrees *int
	NumGenerations     int
	Rounds             int // planned
	Seed               *int64

	Progress func(files int) // called occasionally with the number of files read; may be nil
}

// ErrNothing is the error for a folder without a single round.
var ErrNothing = errors.New("no round is recorded there")

// Find returns the folders of experiments at dir, by name: dir itself, those in dir/experiments, or those in dir.
func Find(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", dir, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("import %s: it is not a folder", dir)
	}
	if isExperiment(dir) {
		return []string{dir}, nil
	}
	for _, parent := range []string{filepath.Join(dir, "experiments"), dir} {
		entries, err := os.ReadDir(parent)
		if err != nil {
			continue
		}
		var found []string
		for _, e := range entries {
			if path := filepath.Join(parent, e.Name()); e.IsDir() && isExperiment(path) {
				found = append(found, path)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, fmt.Errorf("import %s: %w", dir, ErrNothing)
}

// isExperiment reports whether dir has rewards or logs of nodes.
func isExperiment(dir string) bool {
	for _, name := range []string{"rewards", "logs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// Read reads one experiment's folder. The Report describes what was found, also if there is an error. The error is a
// wrapped ErrNothing if there is no round.
func Read(ctx context.Context, dir string, o Options) (store.Import, *Report, error) {
	if o.Name != "" && !store.ValidExperiment(o.Name) {
		return store.Import{}, nil, fmt.Errorf("import: %q is not a valid experiment name: %s", o.Name, store.ExperimentRule)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return store.Import{}, nil, fmt.Errorf("import: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return store.Import{}, nil, fmt.Errorf("import %s: %w", dir, err)
	}
	defer root.Close()
	report := &Report{Folder: dir, Records: map[string]int{}}
	f := &folder{ctx: ctx, root: root, report: report, progress: o.Progress}
	b := newBook(report)
	s := newSettings(o, filepath.Base(dir), report)
	for _, read := range []func() error{
		func() error { return f.readFacts(s) },
		func() error { return f.readRewards(b) },
		func() error { return f.readLogs(b) },
		func() error { return f.readPeers(b, s) },
		func() error { return f.readRollout(s) },
	} {
		if err := read(); err != nil {
			return store.Import{}, report, fmt.Errorf("import %s: %w", dir, err)
		}
	}
	s.conclude()
	x, err := assemble(b, s, report)
	if err != nil {
		return x, report, fmt.Errorf("import %s: %w", dir, err)
	}
	return x, report, nil
}

// assemble builds the run.
func assemble(b *book, s *settings, report *Report) (store.Import, error) {
	rounds := b.rounds(s)
	if len(rounds) == 0 {
		return store.Import{}, ErrNothing
	}
	x := store.Import{Format: Format, Source: report.Folder, Rounds: rounds}
	x.Run = s.run(rounds, b.workers())
	report.describe(x)
	var err error
	if x.Run.Config, err = s.document(); err != nil {
		return x, err
	}
	if x.Notes, err = json.Marshal(report); err != nil {
		return x, err
	}
	x.Digest = digest(x)
	return x, nil
}

// digest hashes all data that are recorded in the database, except the location of the folder.
func digest(x store.Import) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %d %d %d %d %q %q %v %v %s\n", x.Run.Run, x.Run.Experiment, x.Run.Model, x.Run.Seed, x.Run.Rounds,
		x.Run.NumTrainSamples, x.Run.NumTransplantTrees, x.Run.NumGenerations, x.Run.NodeIDs, x.Run.State, x.Run.Started, x.Run.Ended, x.Run.Config)
	for _, r := range x.Rounds {
		fmt.Fprintf(h, "%q %d %v %v %v %d %d %q %d\n", r.Node, r.Round.Round, r.Time, r.Reward, r.RewardSum, r.Completions, r.Records, r.Source,
			r.TrainedExternal)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// runKey names the run by its start time. Folders of one experiment with different start times are different runs. A
// folder that has grown is the same run.
func runKey(experiment string, started float64) string {
	return experiment + "-" + time.Unix(int64(started), 0).UTC().Format("20060102T150405Z") + "-" + Format
}
