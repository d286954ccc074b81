package export

import (
	"context"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Chosen returns runs and the keys of jobs, oldest first. names lists experiments, runs and jobs; empty: all. If a name
// matches nothing, it is returned as unknown with store.ErrNotFound. The error is also store.ErrNotFound if there are
// no runs and jobs at all.
func Chosen(ctx context.Context, reader *store.Reader, names []string) (runs []store.Run, jobs []string, unknown string, err error) {
	all, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil, nil, "", err
	}
	allJobs, err := reader.Jobs(ctx, store.JobFilter{Names: names})
	if err != nil {
		return nil, nil, "", err
	}
	for _, name := range names {
		isRun := slices.ContainsFunc(all, func(t store.Totals) bool { return name == t.Run.Run || name == t.Experiment })
		isJob := slices.ContainsFunc(allJobs, func(j store.Job) bool { return name == j.Job || name == j.Name })
		if !isRun && !isJob {
			return nil, nil, name, store.ErrNotFound
		}
	}
	if len(all) == 0 && len(allJobs) == 0 {
		return nil, nil, "", store.ErrNotFound
	}
	for _, t := range all {
		if len(names) == 0 || slices.Contains(names, t.Run.Run) || slices.Contains(names, t.Experiment) {
			runs = append(runs, t.Run)
		}
	}
	for _, j := range slices.Backward(allJobs) {
		jobs = append(jobs, j.Job)
	}
	return runs, jobs, "", nil
}
