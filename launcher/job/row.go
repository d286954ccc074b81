package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// begin creates the job's name, row and log.
func (j *Job) begin(ctx context.Context) error {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // a job without a host name is never another host's
	name := j.o.Name
	if name == "" {
		name = jobName(j.places.argv)
	}
	j.row = store.Job{
		Name: name, Key: j.places.key, Command: j.places.argv, Dir: j.dir, Host: host,
		PID: self.PID, StartTicks: int64(self.Start), BootID: self.Boot, State: store.JobWaiting, Started: event.Now(),
	}
	if j.row.Job, err = j.store.StartJob(ctx, j.row); err != nil {
		return err
	}
	if err := j.openLog(ctx); err != nil {
		j.end(ctx, fail.ExitFailed, fail.OneLine(err.Error()))
		return err
	}
	return nil
}

// openLog creates the job's log. In the background it announces the log to the process that started the job.
func (j *Job) openLog(ctx context.Context) (err error) {
	j.row.Log = filepath.Join(j.s.Home.Jobs(), j.row.Job, "log")
	if err := j.store.SaveJob(ctx, j.row); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.row.Log), 0o700); err != nil {
		return err
	}
	if j.s.Announce != nil {
		return j.s.Announce(j.row.Job, j.row.Log)
	}
	if j.log, err = supervise.OpenLog(j.row.Log, 0); err != nil {
		return err
	}
	j.logged = newLiner(j.log)
	return nil
}

// jobName returns the name of the command's script, else of its program: train for python -u train.py --lr 1.
func jobName(argv []string) string {
	name := argv[0]
	for _, arg := range argv[1:] {
		if strings.HasSuffix(arg, ".py") || strings.HasSuffix(arg, ".sh") {
			name = arg
			break
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".py"), ".sh")
}

// end records how the job ended and closes its log. A job is stopped only if a signal to swarm run ended ctx. A command
// that ends by itself with 130, or by a signal of another process, has failed.
func (j *Job) end(ctx context.Context, code int, reason string) {
	j.row.Ended, j.row.ExitCode = event.Now(), &code
	if reason != "" {
		j.row.Reason = reason
	}
	var stopped *interrupt.Error
	switch {
	case errors.As(context.Cause(ctx), &stopped):
		j.row.State = store.JobStopped
	case code == 0:
		j.row.State = store.JobDone
	default:
		j.row.State = store.JobFailed
	}
	for _, row := range j.unsaved { // the database may be available again
		j.saveAttempt(context.Background(), row)
	}
	j.saveJob(context.Background())
	if j.log != nil {
		_ = j.log.Close() // a failure doesn't matter: the command has ended
		j.log = nil
	}
}

// saveLimit bounds the wait for a write of the job's record.
const saveLimit = 10 * time.Second

// record writes data about the job to the database, until ctx ends. If the write fails, it reports the failure,
// because a database error must not end a training.
func (j *Job) record(ctx context.Context, write func(context.Context) error) bool {
	limit := saveLimit
	if len(j.unsaved) > 0 { // earlier writes have already waited
		limit = saveLimit / 10
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := write(ctx)
	if err != nil {
		j.say("the job cannot be recorded: %v", err)
	}
	return err == nil
}

func (j *Job) saveJob(ctx context.Context) {
	j.record(ctx, func(ctx context.Context) error { return j.store.SaveJob(ctx, j.row) })
}

// reading runs a query with a reader of the database.
func (j *Job) reading(ctx context.Context, ask func(*store.Reader) error) error {
	reader, err := store.OpenReader(ctx, j.s.Home.Database())
	if err != nil {
		return err
	}
	defer reader.Close()
	return ask(reader)
}
