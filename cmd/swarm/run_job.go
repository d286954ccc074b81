package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// job is one swarm run: a command, tried until it fits.
type job struct {
	g          *globals
	o          *runOptions
	dir        string
	places     *places
	interrupts *interrupt.Watch

	stdout, stderr *liner
	together       bool // they are one terminal or one file

	store  *store.Store
	row    store.Job
	log    *supervise.Log // nil in the background: there everything printed is the log
	logged *liner         // the same
	rooms  *rooms
	queue  *queue.Queue
	ticket *queue.Ticket
	claim  queue.Claim
	free   int64          // bytes of its GPU just before the attempt; 0: not told
	before int64          // bytes that others held there
	loan   *settings.Loan // nil: no file is changed

	attempts int
	unsaved  map[int]store.JobAttempt // that could not be written
	history  []retry.Outcome          // those that ran out of memory
	pids     []int                    // of the attempt, as sampled last
}

// run does the job. Its error carries the command's exit code.
func (j *job) run(ctx context.Context) (err error) {
	if err := recoverLoans(j.g); err != nil {
		if len(j.places.files) > 0 {
			return err
		}
		j.say("%v", err) // other jobs' files: no reason not to run this one
	}
	if j.store, err = store.Open(ctx, j.g.home.Database(), store.Options{RetryFor: saveLimit * 4 / 5, Warn: func(err error) { j.say("%v", err) }}); err != nil {
		return err
	}
	defer func() {
		if err := j.store.Close(); err != nil { // the command's end stays what it was
			j.say("the database was not closed in order: %v", err)
		}
	}()
	if j.rooms, err = openRooms(ctx, j.o); err != nil { // before there is a job: a --gpu that isn't there makes none
		return interrupt.Exit(ctx, err)
	}
	if err := j.begin(ctx); err != nil {
		j.rooms.close()
		return err
	}
	code, err := j.work(ctx)
	if err != nil {
		err = interrupt.Exit(ctx, err)
		j.end(exitCode(err), fail.OneLine(err.Error()))
		return err
	}
	var stopped *interrupt.Error
	if errors.As(context.Cause(ctx), &stopped) {
		code = fail.ExitSignal + int(stopped.Signal)
	}
	j.end(code, "")
	if j.o.output == "json" {
		err = j.document(ctx)
	}
	if code == 0 {
		return err
	}
	if err != nil {
		j.say("%v", err)
	}
	return fail.Exit(code)
}

// begin gives the job its name, its row and its log.
func (j *job) begin(ctx context.Context) error {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // a host without a name is nobody else's
	name := j.o.name
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
func (j *job) openLog(ctx context.Context) (err error) {
	j.row.Log = filepath.Join(j.g.home.Jobs(), j.row.Job, "log")
	if err := j.store.SaveJob(ctx, j.row); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.row.Log), 0o755); err != nil {
		return err
	}
	if j.g.console != nil {
		return j.g.console.announce(announcement{Job: j.row.Job, PID: os.Getpid(), Log: j.row.Log})
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

// work tries the command until it succeeds, fails for another reason than memory, or nothing is left to try. The code is the command's.
func (j *job) work(ctx context.Context) (code int, err error) {
	defer j.leave()
	if len(j.places.files) > 0 {
		if err := j.lend(ctx); err != nil {
			return fail.ExitFailed, err
		}
	}
	if j.queue, err = queue.Open(j.g.home.Queue()); err != nil {
		return fail.ExitFailed, err
	}
	j.queue.Log = j.g.logger
	if err := j.first(ctx); err != nil {
		return fail.ExitFailed, err
	}
	setting, why := j.start(ctx)
	for {
		outcome, err := j.attempt(ctx, setting, why)
		if err != nil {
			return fail.ExitFailed, err
		}
		if outcome.Shortage == nil || outcome.Stopped || ctx.Err() != nil {
			j.tell(outcome)
			return outcome.Status(), nil
		}
		next, reason, err := j.next(ctx, setting, outcome)
		if err != nil && ctx.Err() != nil {
			return fail.ExitFailed, err
		}
		if err != nil {
			j.row.Reason = fail.OneLine(err.Error())
			j.say("memory ran out (%s): %v", shortageText(*outcome.Shortage), err)
			return outcome.Status(), nil
		}
		j.say("memory ran out (%s): %s", shortageText(*outcome.Shortage), reason)
		setting, why = next, reason
	}
}

// lend takes the files that --set names. Where another job has them it waits as it does for a GPU.
func (j *job) lend(ctx context.Context) (err error) {
	until := time.Now().Add(j.o.wait.limit)
	for told := false; ; told = true {
		j.loan, err = settings.Lend(j.g.loanState(), j.dir, j.row.Job, j.places.files)
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
		case <-time.After(min(left, j.o.wait.interval, time.Second)):
		}
	}
}

// first takes the first room: a GPU, or the CPU where that is allowed and no GPU is to be had.
func (j *job) first(ctx context.Context) error {
	switch {
	case j.o.cpu == cpuOnly:
		return j.take(ctx, true, "", nil)
	case j.rooms.gpus != nil:
		err := j.take(ctx, false, "", nil)
		if !errors.Is(err, fit.ErrDoesNotFit) || j.o.cpu != cpuFallback {
			return err
		}
		what, _ := fail.SplitRemedy(err.Error())
		j.say("on the CPU: %s", what)
	case j.o.cpu != cpuFallback:
		what, _ := fail.SplitRemedy(j.rooms.reason)
		return &noRoom{fmt.Errorf("there is no GPU: %s. Try: --cpu fallback to train on the CPU; swarm doctor tells more", what)}
	default:
		what, _ := fail.SplitRemedy(j.rooms.reason)
		j.say("on the CPU, for there is no GPU: %s", what)
	}
	return j.take(ctx, true, "", nil)
}

// start is what the first attempt is made with.
func (j *job) start(ctx context.Context) (setting retry.Setting, why string) {
	asked := j.places.asked
	asked.OnCPU, asked.GPU = j.onCPU(), ""
	kind := ""
	if !asked.OnCPU {
		asked.GPU, kind = j.claim.GPU, j.claim.Name
	}
	e := j.experience(ctx, kind)
	return j.places.policy(j.o).Start(e.fitted, e.short, asked)
}

func (j *job) onCPU() bool { return j.claim.GPU == queue.CPU }

// next is what to try after memory ran out, with a room for it. A GPU that can't be had in time is left out.
func (j *job) next(ctx context.Context, setting retry.Setting, outcome attempt.Outcome) (retry.Setting, string, error) {
	j.history = append(j.history, retry.Outcome{Setting: setting, Shortage: *outcome.Shortage, Free: j.free})
	others, err := j.moveTo(ctx)
	if err != nil { // the GPU at hand may do with less
		j.say("other GPUs can't be looked at: %v", err)
	}
	var gpus []retry.GPU
	for _, room := range others {
		gpus = append(gpus, retry.GPU{UUID: room.GPU, Name: fmt.Sprintf("GPU %d", room.Index), Free: room.Free})
	}
	for {
		next, why, err := j.places.policy(j.o).Next(j.history, gpus)
		if err != nil || next.OnCPU == setting.OnCPU && next.GPU == setting.GPU {
			return next, why, err
		}
		err = j.take(ctx, next.OnCPU, next.GPU, &next)
		if err == nil || next.OnCPU || ctx.Err() != nil {
			return next, why, err
		}
		what, _ := fail.SplitRemedy(err.Error())
		j.say("not on GPU %s: %s", next.GPU, what)
		gpus = slices.DeleteFunc(gpus, func(g retry.GPU) bool { return g.UUID == next.GPU })
	}
}

// leave gives everything back that the job has taken. What can't be given back is told: the command's exit code is passed on all the same.
func (j *job) leave() {
	if j.loan != nil {
		if err := j.loan.Revert(); err != nil {
			j.row.Reason = fail.OneLine(err.Error())
			j.say("%v", err)
		}
	}
	if err := j.ticket.Leave(); err != nil {
		j.say("%v", err) // the place in the queue ends with this process
	}
	if j.rooms != nil {
		j.rooms.close()
	}
}

// end writes how the job ended and closes its log.
func (j *job) end(code int, reason string) {
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

// say tells the user, and the log, about the job itself.
func (j *job) say(format string, args ...any) {
	line := "swarm run: " + fail.OneLine(fmt.Sprintf(format, args...)) + "\n"
	j.stderr.say(line)
	if j.log != nil {
		j.logged.say(line)
	}
}

// input is what the command reads: a pipe or a file that was given, never the terminal, whose session it is not part of.
func (j *job) input() *os.File {
	file, ok := j.g.stdin.(*os.File)
	if !ok || j.g.console != nil || term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// saveLimit is how long a job waits for its record to be written.
const saveLimit = 10 * time.Second

// record writes something about the job, and gives up when ctx ends. A database that can't be written must not end a training: it is told.
func (j *job) record(ctx context.Context, write func(context.Context) error) bool {
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

func (j *job) saveJob(ctx context.Context) {
	j.record(ctx, func(ctx context.Context) error { return j.store.SaveJob(ctx, j.row) })
}

// reading asks the database.
func (j *job) reading(ctx context.Context, ask func(*store.Reader) error) error {
	reader, err := store.OpenReader(ctx, j.g.home.Database())
	if err != nil {
		return err
	}
	defer reader.Close()
	return ask(reader)
}
