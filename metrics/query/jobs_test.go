package query

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestRecentJobsAreThoseThatGoOnAndTheNewestThatEnded(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	defer s.Close()
	for i, x := range []struct {
		name, state    string
		started, ended float64
	}{
		{"old", store.JobDone, 10, 20}, {"long", store.JobRunning, 5, 0}, {"lost", store.JobRunning, 6, 0}, {"a", store.JobDone, 10, 200},
		{"b", store.JobFailed, 150, 160}, {"queued", store.JobWaiting, 155, 0}, {"c", store.JobStopped, 160, 170}, {"justlost", store.JobRunning, 170, 0},
	} {
		_, err := s.StartJob(t.Context(), store.Job{Name: x.name, Key: "k", Command: []string{"x"}, State: x.state, Started: x.started, Ended: x.ended, PID: i})
		require.NoError(t, err)
	}
	reader, err := store.OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer reader.Close()
	alive := func(j store.Job) bool { return j.Name == "long" || j.Name == "queued" }
	recent := func(limit int) (names []string) {
		jobs, err := RecentJobs(t.Context(), reader, 100, limit, JobOptions{Now: 300, Alive: alive})
		require.NoError(t, err)
		for _, j := range jobs {
			names = append(names, fmt.Sprint(j.Name, " ", j.State))
		}
		return names
	}
	require.Equal(t, []string{"justlost lost", "c stopped", "queued waiting", "b failed", "a done", "long running"}, recent(10))
	require.Equal(t, []string{"justlost lost", "queued waiting", "long running"}, recent(1))
}
