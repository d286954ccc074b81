package job

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// begin gives the job its name, its row and its log.
func (j *Job) begin(ctx context.Context) error {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // a host without a name is nobody else's
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
		j.end(fail.ExitFailed, fail.OneLine(err.Error()))
		return err
	}
	return nil
}

// openLog makes the job's log and tells its starter of it where that has left.
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

// jobName is the command's script, else its program: train of python -u train.py --lr 1.
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

// end writes how the job ended and closes its log.
func (j *Job) end(code int, reason string) {
	j.row.Ended, j.row.ExitCode = event.Now(), &code
	if reason != "" {
		j.row.Reason = reason
	}
	switch {
	case code == 0:
		j.row.State = store.JobDone
	case code == fail.ExitSignal+int(syscall.SIGINT), code == fail.ExitSignal+int(syscall.SIGTERM), code == fail.ExitSignal+int(syscall.SIGHUP):
		j.row.State = store.JobStopped
	default:
		j.row.State = store.JobFailed
	}
	for _, row := range j.unsaved { // the database may have come back
		j.saveAttempt(context.Background(), row)
	}
	j.saveJob(context.Background())
	if j.log != nil {
		_ = j.log.Close() // it is a record, and the command has ended
		j.log = nil
	}
}

// saveLimit is how long a job waits for its record to be written.
const saveLimit = 10 * time.Second

// record writes something about the job, and gives up when ctx ends. A database that can't be written must not end a
// training: it is told.
func (j *Job) record(ctx context.Context, write func(context.Context) error) bool {
	limit := saveLimit
	if len(j.unsaved) > 0 { // it has been waited for
		limit = saveLimit / 10
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := write(ctx)
	if err != nil {
		j.say("this is not recorded: %v", err)
	}
	return err == nil
}

func (j *Job) saveJob(ctx context.Context) {
	j.record(ctx, func(ctx context.Context) error { return j.store.SaveJob(ctx, j.row) })
}

// reading asks the database.
func (j *Job) reading(ctx context.Context, ask func(*store.Reader) error) error {
	reader, err := store.OpenReader(ctx, j.s.Home.Database())
	if err != nil {
		return err
	}
	defer reader.Close()
	return ask(reader)
}
