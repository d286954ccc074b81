package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// JobOptions hold what the database does not know about jobs.
type JobOptions struct {
	Now   float64              // Unix seconds
	Alive func(store.Job) bool // reports whether the process of a job without an end still runs, as far as this host can see
}

func (o JobOptions) describe(j store.Job) jobstats.Job {
	return jobstats.NewJob(j, o.Now, j.Ended > 0 || o.Alive(j))
}

// RecentJobs reads running jobs and the newest other jobs, at most limit of them. These ended, or were last heard of,
// after the time since, in Unix seconds. Newest jobs come first.
func RecentJobs(ctx context.Context, reader *store.Reader, since float64, limit int, o JobOptions) ([]jobstats.Job, error) {
	found, err := reader.Jobs(ctx, store.JobFilter{Since: since})
	if err != nil {
		return nil, err
	}
	var jobs []jobstats.Job
	ended := 0
	for _, j := range found {
		described := o.describe(j)
		if goesOn := j.Ended == 0 && described.State != jobstats.JobLost; !goesOn {
			if ended >= limit || jobstats.LastHeard(j) <= since {
				continue
			}
			ended++
		}
		jobs = append(jobs, described)
	}
	return jobs, nil
}

// CompareJobs lists jobs side by side (`swarm compare` of jobs), in the given order.
func CompareJobs(jobs []jobstats.Job) jobstats.JobComparison {
	c := jobstats.CompareJobs(jobs)
	wording.Jobs(&c)
	return c
}
