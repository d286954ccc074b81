package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// JobFilter selects jobs. Its zero value selects all.
type JobFilter struct {
	Names []string // keys or names
	Since float64  // Unix seconds; selects jobs that ended later or have no end
	Limit int      // number of newest jobs; 0: all
}

const (
	// jobColumns lacks seen, which Jobs adds.
	jobColumns = `job, name, key, command, dir, host, pid, start_ticks, boot_id, state, started, coalesce(ended, 0.0), exit_code, reason, log, `

	attemptColumns = `job, attempt, started, coalesce(ended, 0.0), device, gpu, gpu_name, coalesce(gpu_total_bytes, 0),
  coalesce(batch_size, 0), coalesce(accumulate, 0), gradient_checkpointing, offload, settings, step, exit_code, signal, cause,
  coalesce(asked_bytes, 0), coalesce(free_bytes, 0), coalesce(allocated_bytes, 0), coalesce(peak_gpu_bytes, 0), coalesce(peak_host_bytes, 0),
  message`
)

// Jobs returns the jobs that f selects with their attempts, newest first. Databases from before jobs existed have none.
func (r *Reader) Jobs(ctx context.Context, f JobFilter) ([]Job, error) {
	schema, err := r.schema(ctx)
	if err != nil || schema < schemaJobs {
		return nil, err
	}
	columns := jobColumns + "seen"
	if schema < schemaJobSeen {
		columns = jobColumns + "0.0"
	}
	jobs, err := r.jobs(ctx, columns, f)
	return jobs, sqlite.Explain(r.path, err)
}

func (r *Reader) jobs(ctx context.Context, columns string, f JobFilter) ([]Job, error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // both queries see the same state
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing to undo
	where, args := f.sql()
	var jobs []Job
	at := map[string]int{}
	err = sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		j, err := scanJob(rows)
		at[j.Job] = len(jobs)
		jobs = append(jobs, j)
		return err
	}, "SELECT "+columns+" FROM jobs "+where, args...)
	if err != nil {
		return nil, err
	}
	err = sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		a, err := scanAttempt(rows)
		if i, ok := at[a.Job]; ok {
			jobs[i].Attempts = append(jobs[i].Attempts, a)
		}
		return err
	}, "SELECT "+attemptColumns+" FROM job_attempts WHERE job IN (SELECT job FROM jobs "+where+") ORDER BY job, attempt", args...)
	return jobs, err
}

func (f JobFilter) sql() (string, []any) {
	var terms []string
	var args []any
	if len(f.Names) > 0 {
		list := "(?" + strings.Repeat(", ?", len(f.Names)-1) + ")"
		terms = append(terms, "(job IN "+list+" OR name IN "+list+")")
		for range 2 {
			for _, name := range f.Names {
				args = append(args, name)
			}
		}
	}
	if f.Since > 0 {
		terms, args = append(terms, "(ended IS NULL OR ended > ?)"), append(args, f.Since)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	text := "ORDER BY started DESC, job DESC LIMIT ?"
	if terms != nil {
		text = "WHERE " + strings.Join(terms, " AND ") + " " + text
	}
	return text, append(args, limit)
}

// Job returns the job with that key, else the newest job with that name. The error is a wrapped ErrNotFound if there is
// none.
func (r *Reader) Job(ctx context.Context, name string) (Job, error) {
	jobs, err := r.Jobs(ctx, JobFilter{Names: []string{name}})
	if err != nil {
		return Job{}, err
	}
	if len(jobs) == 0 {
		return Job{}, fmt.Errorf("job %q: %w", name, ErrNotFound)
	}
	if i := slices.IndexFunc(jobs, func(j Job) bool { return j.Job == name }); i >= 0 {
		return jobs[i], nil
	}
	return jobs[0], nil
}

// Attempts of a command key (?1) on a kind of GPU (?2); an empty kind is the CPU.
const (
	attemptsOfKey = `FROM job_attempts WHERE job IN (SELECT job FROM jobs WHERE key = ?1) AND gpu_name = ?2 AND ended IS NOT NULL`

	isShortage = `cause NOT IN ('', 'failed', 'stopped')`

	// A stopped attempt counts as fitting if it ran longer than any attempt that ran out of memory. Without such an
	// attempt it does not count, because it may have been stopped before it needed its full memory.
	isFit = `(cause = '' AND exit_code = 0 OR cause = 'stopped' AND ended - started >
  (SELECT max(ended - started) ` + attemptsOfKey + ` AND ` + isShortage + `))`
)

// learnedFrom is the number of newest attempts that LearnedBytes uses. Older measurements are unreliable, because the
// command's code may have changed.
const learnedFrom = 10

// Fitted returns the newest attempt of a command on a kind of GPU whose memory sufficed. It ended with exit code 0, or
// was stopped after it had run longer than any attempt there that ran out of memory. An empty gpuName selects attempts
// on the CPU. False: there is none.
func (r *Reader) Fitted(ctx context.Context, key, gpuName string) (JobAttempt, bool, error) {
	found, err := r.attempts(ctx, key, gpuName, isFit, 1)
	if err != nil || len(found) == 0 {
		return JobAttempt{}, false, err
	}
	return found[0], true, nil
}

// Shortages returns the newest 100 attempts of a command on a kind of GPU that ran out of memory, newest first.
func (r *Reader) Shortages(ctx context.Context, key, gpuName string) ([]JobAttempt, error) {
	return r.attempts(ctx, key, gpuName, isShortage, 100)
}

// LearnedBytes returns the memory that a command needs on a kind of GPU with the settings of Fitted: the highest
// measured peak of the newest attempts that fitted with these settings. The peak is of GPU memory, or of host memory on
// the CPU. False: there is no measurement.
func (r *Reader) LearnedBytes(ctx context.Context, key, gpuName string) (int64, bool, error) {
	fitted, err := r.attempts(ctx, key, gpuName, isFit, learnedFrom)
	if err != nil || len(fitted) == 0 {
		return 0, false, err
	}
	var most int64
	for _, a := range fitted {
		if !a.sameMemory(fitted[0]) {
			continue
		}
		peak := a.PeakGPU
		if gpuName == "" {
			peak = a.PeakHost
		}
		most = max(most, peak)
	}
	return most, most > 0, nil
}

// sameMemory reports whether two attempts have equal settings as far as memory depends on them.
func (a JobAttempt) sameMemory(b JobAttempt) bool {
	return a.BatchSize == b.BatchSize && a.GradientCheckpointing == b.GradientCheckpointing && a.Offload == b.Offload
}

// attempts returns the ended attempts of a key, newest first.
func (r *Reader) attempts(ctx context.Context, key, gpuName, which string, limit int) ([]JobAttempt, error) {
	if ok, err := r.has(ctx, schemaJobs); err != nil || !ok {
		return nil, err
	}
	var found []JobAttempt
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		a, err := scanAttempt(rows)
		found = append(found, a)
		return err
	}, "SELECT "+attemptColumns+" "+attemptsOfKey+" AND "+which+" ORDER BY ended DESC, job DESC, attempt DESC LIMIT ?3", key, gpuName, limit)
	return found, sqlite.Explain(r.path, err)
}

func scanJob(rows *sql.Rows) (Job, error) {
	var j Job
	var command []byte
	err := rows.Scan(&j.Job, &j.Name, &j.Key, &command, &j.Dir, &j.Host, &j.PID, &j.StartTicks, &j.BootID, &j.State, &j.Started, &j.Ended,
		&j.ExitCode, &j.Reason, &j.Log, &j.Seen)
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(command, &j.Command); err != nil {
		return j, errors.Join(fmt.Errorf("command of job %s", j.Job), err)
	}
	return j, nil
}

func scanAttempt(rows *sql.Rows) (JobAttempt, error) {
	var a JobAttempt
	err := rows.Scan(&a.Job, &a.Attempt, &a.Started, &a.Ended, &a.Device, &a.GPU, &a.GPUName, &a.GPUTotal, &a.BatchSize, &a.Accumulate,
		&a.GradientCheckpointing, &a.Offload, (*[]byte)(&a.Settings), &a.Step, &a.ExitCode, &a.Signal, &a.Cause, &a.Asked, &a.Free, &a.Allocated,
		&a.PeakGPU, &a.PeakHost, &a.Message)
	return a, err
}
