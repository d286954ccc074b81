package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// States of a job.
const (
	JobWaiting = "waiting" // waits for a GPU
	JobRunning = "running" // an attempt is running
	JobDone    = "done"    // the command ended with exit code 0
	JobFailed  = "failed"
	JobStopped = "stopped" // by a signal to swarm run
)

// Causes of an attempt's end other than a memory shortage. Shortages use launcher/job/shortage's Kind: torch,
// host_killed.
const (
	CauseSucceeded = ""
	CauseFailed    = "failed"
	CauseStopped   = "stopped"
)

// Job is one `swarm run` of a command, with one or more attempts.
type Job struct {
	Job     string   // key, assigned by StartJob
	Name    string   // as given, or derived from the command; not unique
	Key     string   // of the command; jobs with equal keys are the same training
	Command []string // as typed, with placeholders
	Dir     string   // working directory
	Log     string   // path of its output

	Host       string // identifies the process of swarm run, with the next three fields
	PID        int
	StartTicks int64  // of /proc/PID/stat
	BootID     string // of that host

	State    string
	Started  float64 // Unix seconds
	Seen     float64 // last heartbeat of swarm run, which the Store that started the job records; 0: none
	Ended    float64 // 0: it is running, or died without recording an end
	ExitCode *int    // as passed on; nil: none yet
	Reason   string  // reason for its state

	Attempts []JobAttempt // oldest first; only queries set it
}

// JobAttempt is one start of a job's command.
type JobAttempt struct {
	Job     string
	Attempt int     // counted from 1
	Started float64 // Unix seconds
	Ended   float64 // 0: it is running, or its end is unknown

	Device   string // cuda, cpu
	GPU      string // UUID; empty: none
	GPUName  string
	GPUTotal int64 // bytes; 0, here and below: unknown or not measured

	BatchSize             int // 0: not set
	Accumulate            int // 0: not set
	GradientCheckpointing bool
	Offload               bool
	Settings              json.RawMessage // all values that were inserted into the command; nil: {}
	Step                  string          // setting that was changed before this attempt, and why

	ExitCode *int   // nil: ended by a signal, or not ended
	Signal   string // signal that ended it
	Cause    string // CauseSucceeded (also while running), CauseFailed, CauseStopped, or the kind of shortage
	Message  string

	Asked, Free, Allocated int64 // bytes, of a shortage
	PeakGPU, PeakHost      int64 // bytes, highest measurement of its processes
}

// Shortage reports whether memory ran out.
func (a JobAttempt) Shortage() bool {
	return a.Cause != CauseSucceeded && a.Cause != CauseFailed && a.Cause != CauseStopped
}

// Seconds returns the duration of the attempt, or 0 if it has no end.
func (a JobAttempt) Seconds() float64 {
	if a.Ended == 0 {
		return 0
	}
	return max(0, a.Ended-a.Started)
}

const jobSeenSQL = `UPDATE jobs SET seen = ?2 WHERE job = ?1 AND seen < ?2 AND ended IS NULL`

// StartJob writes a new job's row and returns its key. The key is the name, reduced to characters that are safe in file
// names, with the next free number. It retries as SaveJob does.
func (s *Store) StartJob(ctx context.Context, j Job) (string, error) {
	if err := j.check(); err != nil {
		return "", fmt.Errorf("start job: %w", err)
	}
	err := s.persist(ctx, "start job "+j.Name, func(tx *sql.Tx) error {
		var err error
		if j.Job, err = freeJob(ctx, tx, safeName(j.Name)); err != nil {
			return err
		}
		return saveJob(ctx, tx, j)
	})
	if err == nil {
		s.pulse.begin(j.Job, 0, j.Started)
	}
	return j.Job, err
}

// SaveJob writes a job's row immediately and replaces the row with its key. If a write fails, for example on a full
// disk, it retries for RetryFor or until ctx ends. Warn receives the first failure.
func (s *Store) SaveJob(ctx context.Context, j Job) error {
	if err := j.check(); err != nil || j.Job == "" {
		return errors.Join(fmt.Errorf("save job %q: a key is needed", j.Job), err)
	}
	return s.persist(ctx, "save job "+j.Job, func(tx *sql.Tx) error { return saveJob(ctx, tx, j) })
}

// SaveAttempt writes an attempt of an existing job, as SaveJob does. Callers save it at its start, and again with its
// result.
func (s *Store) SaveAttempt(ctx context.Context, a JobAttempt) error {
	if a.Job == "" || a.Attempt < 1 || !isTime(a.Started) {
		return fmt.Errorf("save attempt %d of job %q: a job, a number from 1 and a start are needed", a.Attempt, a.Job)
	}
	what := fmt.Sprintf("save attempt %d of job %s", a.Attempt, a.Job)
	return s.persist(ctx, what, func(tx *sql.Tx) error { return saveAttempt(ctx, tx, a) })
}

func (j Job) check() error {
	switch {
	case j.Name == "" || j.Key == "" || len(j.Command) == 0:
		return errors.New("a name, its command and the command's key are needed")
	case !isTime(j.Started):
		return errors.New("it needs a start")
	}
	switch j.State {
	case JobWaiting, JobRunning, JobDone, JobFailed, JobStopped:
		return nil
	}
	return fmt.Errorf("%q is not a job state", j.State)
}

func isTime(v float64) bool { return v > 0 && units.Finite(v) }

// persist runs write in a transaction of its own, and retries temporary failures.
func (s *Store) persist(ctx context.Context, what string, write func(*sql.Tx) error) error {
	began := time.Now()
	delay := s.opts.RetryDelay
	for tries := 1; ; tries++ {
		err := s.once(ctx, write)
		switch {
		case err == nil && tries > 1:
			s.opts.Warn(&Recovered{Path: s.path, After: time.Since(began)})
			return nil
		case err == nil:
			return nil
		}
		err = sqlite.Explain(s.path, fmt.Errorf("%s: %w", what, err))
		if !passing(err) || ctx.Err() != nil || time.Since(began) > s.opts.RetryFor {
			return err
		}
		if tries == 1 {
			s.opts.Warn(fmt.Errorf("%w: retrying for at most %s", err, s.opts.RetryFor))
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.closing:
			timer.Stop()
			return err
		}
		timer.Stop()
		delay = min(2*delay, 30*time.Second)
	}
}

// passing reports whether a failure may be temporary: another program's lock, a full disk, a disk error.
func passing(err error) bool {
	var sq sqlite3.Error
	if !errors.As(err, &sq) {
		return false
	}
	switch sq.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrFull, sqlite3.ErrIoErr:
		return true
	}
	return false
}

func (s *Store) once(ctx context.Context, write func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// maxJobName bounds the bytes of a job's name in its key.
const maxJobName = 64

// safeName reduces a name to characters that are safe in a folder's name.
func safeName(name string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	safe = strings.TrimLeft(safe, ".-")
	if safe = safe[:min(len(safe), maxJobName)]; safe == "" {
		return "job"
	}
	return safe
}

// freeJob returns the name with the next number: one more than the highest number of jobs, runs and experiments with
// that name.
func freeJob(ctx context.Context, tx *sql.Tx, name string) (string, error) {
	highest := 0
	err := sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var taken string
		if err := rows.Scan(&taken); err != nil {
			return err
		}
		if n, err := strconv.Atoi(taken[len(name)+1:]); err == nil {
			highest = max(highest, n)
		}
		return nil
	}, `SELECT job FROM jobs WHERE job >= ?1 || '-' AND job < ?1 || '.'
UNION ALL SELECT run FROM runs WHERE run >= ?1 || '-' AND run < ?1 || '.'
UNION ALL SELECT experiment FROM runs WHERE experiment >= ?1 || '-' AND experiment < ?1 || '.'`, name)
	return fmt.Sprintf("%s-%d", name, highest+1), err
}

func saveJob(ctx context.Context, tx *sql.Tx, j Job) error {
	command, err := json.Marshal(j.Command)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO jobs (job, name, key, command, dir, host, pid, start_ticks, boot_id, state, started, ended,
  exit_code, reason, log) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET name = excluded.name, key = excluded.key, command = excluded.command, dir = excluded.dir, host = excluded.host,
  pid = excluded.pid, start_ticks = excluded.start_ticks, boot_id = excluded.boot_id, state = excluded.state, started = excluded.started,
  ended = excluded.ended, exit_code = excluded.exit_code, reason = excluded.reason, log = excluded.log`,
		j.Job, j.Name, j.Key, string(command), j.Dir, j.Host, j.PID, j.StartTicks, j.BootID, j.State, j.Started, known(j.Ended),
		j.ExitCode, j.Reason, j.Log)
	return err
}

func saveAttempt(ctx context.Context, tx *sql.Tx, a JobAttempt) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO job_attempts (job, attempt, started, ended, device, gpu, gpu_name, gpu_total_bytes,
  batch_size, accumulate, gradient_checkpointing, offload, settings, step, exit_code, signal, cause, asked_bytes, free_bytes,
  allocated_bytes, peak_gpu_bytes, peak_host_bytes, message)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET started = excluded.started, ended = excluded.ended, device = excluded.device, gpu = excluded.gpu,
  gpu_name = excluded.gpu_name, gpu_total_bytes = excluded.gpu_total_bytes, batch_size = excluded.batch_size,
  accumulate = excluded.accumulate, gradient_checkpointing = excluded.gradient_checkpointing, offload = excluded.offload,
  settings = excluded.settings, step = excluded.step, exit_code = excluded.exit_code, signal = excluded.signal, cause = excluded.cause,
  asked_bytes = excluded.asked_bytes, free_bytes = excluded.free_bytes, allocated_bytes = excluded.allocated_bytes,
  peak_gpu_bytes = excluded.peak_gpu_bytes, peak_host_bytes = excluded.peak_host_bytes, message = excluded.message`,
		a.Job, a.Attempt, a.Started, known(a.Ended), a.Device, a.GPU, a.GPUName, orNull(a.GPUTotal), orNull(int64(a.BatchSize)),
		orNull(int64(a.Accumulate)), a.GradientCheckpointing, a.Offload, document(a.Settings), a.Step, a.ExitCode, a.Signal, a.Cause,
		orNull(a.Asked), orNull(a.Free), orNull(a.Allocated), orNull(a.PeakGPU), orNull(a.PeakHost), a.Message)
	return err
}

// orNull returns the value to store for a number: NULL for 0, which means unknown.
func orNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}
