package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
)

// loanState returns the folder with the originals of files that --set changes.
func (j *Job) loanState() string { return j.s.Home.Jobs() + "/lent" }

// recoverLoans restores files that dead jobs left changed, and reports them.
func (j *Job) recoverLoans() error {
	restored, err := settings.Recover(j.loanState())
	for _, r := range restored {
		if r.Left != "" {
			fmt.Fprintf(j.s.Stderr, "swarm run: %s still has the values of a job that was killed: %s\n", r.Path, r.Left)
			continue
		}
		fmt.Fprintf(j.s.Stderr, "swarm run: restored %s, which a killed job had changed\n", r.Path)
	}
	return err
}

// lend borrows the files that --set names. If another job has changed them, it waits as for a GPU.
func (j *Job) lend(ctx context.Context) (err error) {
	until := time.Now().Add(j.o.Wait)
	for told := false; ; told = true {
		j.loan, err = settings.Lend(j.loanState(), j.dir, j.row.Job, j.places.files)
		left := time.Until(until)
		if !errors.Is(err, settings.ErrInUse) || left <= 0 {
			return err
		}
		if !told {
			what, _ := fail.SplitRemedy(err.Error())
			j.say("waits: %s", what)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, j.o.Interval, time.Second)):
		}
	}
}
