package export

import (
	"context"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Chosen are the runs of those names, experiments' or their own, and the keys of the jobs of those names, oldest first;
// of no name all. For a name that is neither, the unknown one, the error is store.ErrNotFound, and likewise where there
// is nothing at all.
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
