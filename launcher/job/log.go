package job

import (
	"errors"
	"fmt"
	"os"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// CheckLog returns an error if the job's log is not readable on this host.
func CheckLog(job store.Job) error {
	err := errors.New("none was written")
	if job.Log != "" {
		if _, err = os.Stat(job.Log); err == nil {
			return nil
		}
		if _, older := os.Stat(job.Log + ".1"); older == nil {
			return nil
		}
	}
	if Elsewhere(job) {
		return fail.Hint(fmt.Errorf("the log of %s is on %s: %w", job.Job, job.Host, err), "swarm logs "+job.Job+" there")
	}
	return fail.Hint(fmt.Errorf("the log of %s is missing: %w", job.Job, err), "swarm status "+job.Job+" for the recorded facts")
}
