package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

func aJob(name, state string, started float64) Job {
	return Job{Name: name, Key: "k", Command: []string{"python", "train.py", "b={batch_size}"}, State: state, Started: started}
}

func startJob(t testing.TB, s *Store, j Job) string {
	t.Helper()
	id, err := s.StartJob(context.Background(), j)
	require.NoError(t, err)
	return id
}

func TestEveryFieldOfAJobAndOfAnAttemptComesBack(t *testing.T) {
	s := startedStore(t, Options{})
	code, none := 7, 0
	j := Job{Name: "train it", Key: "k", Command: []string{"sh", "-c", "exit 7\n", ""}, Dir: "/d", Log: "/l", Host: "h",
		PID: 5, StartTicks: 6, BootID: "b", State: JobWaiting, Started: 100}
	j.Job = startJob(t, s, j)
	require.Equal(t, "train_it-1", j.Job)
	j.State, j.Ended, j.ExitCode, j.Reason = JobFailed, 150.5, &code, "no more to try"
	require.NoError(t, s.SaveJob(t.Context(), j))
	a := JobAttempt{Job: j.Job, Attempt: 1, Started: 101, Settings: json.RawMessage(`{"batch_size": "64"}`), Step: "as asked"}
	require.NoError(t, s.SaveAttempt(t.Context(), a))
	v := reflect.ValueOf(&a).Elem() // distinct values show that each column stores its own field
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			if v.Type().Field(i).Name != "Attempt" {
				f.SetInt(int64(1000 + i))
			}
		case reflect.Float64:
			f.SetFloat(101 + float64(i))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			if v.Type().Field(i).Name != "Job" {
				f.SetString(v.Type().Field(i).Name)
			}
		}
	}
	a.ExitCode = &none
	require.NoError(t, s.SaveAttempt(t.Context(), a))
	second := JobAttempt{Job: j.Job, Attempt: 2, Started: 140, Settings: json.RawMessage("{}")}
	require.NoError(t, s.SaveAttempt(t.Context(), JobAttempt{Job: j.Job, Attempt: 2, Started: 140}))
	j.Attempts = []JobAttempt{a, second}
	got, err := readerOf(t, s).Job(t.Context(), "train it")
	require.NoError(t, err)
	require.Equal(t, j, got)
	require.True(t, a.Shortage())
	require.False(t, second.Shortage())
	require.Equal(t, []string{"job_attempts", "jobs"}, tablesOf(t, s, "job%"))

	_, err = s.db.Exec("DELETE FROM jobs")
	require.NoError(t, err)
	var left int
	require.NoError(t, s.db.QueryRow("SELECT count(*) FROM job_attempts").Scan(&left))
	require.Zero(t, left, "attempts go with their job")
}

func tablesOf(t *testing.T, s *Store, like string) (names []string) {
	t.Helper()
	require.NoError(t, sqlite.Query(t.Context(), s.db, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE ? ORDER BY name", like))
	return names
}

func TestJobKeysAreFreeAndFitForFolders(t *testing.T) {
	s := startedStore(t, Options{}) // with a run named run-1
	for _, x := range []struct{ name, want string }{
		{"train", "train-1"}, {"train", "train-2"}, {"train-2", "train-2-1"}, {"run", "run-2"}, {"sapo-4", "sapo-4-5"},
		{"../etc/passwd", "_etc_passwd-1"}, {"--", "job-1"}, {"é\x00ü", "___-1"}, {"train.", "train.-1"}, {"train", "train-3"},
		{strings.Repeat("x", 500), strings.Repeat("x", maxJobName) + "-1"},
	} {
		require.Equal(t, x.want, startJob(t, s, aJob(x.name, JobRunning, 1)), x.name)
	}
}

func TestJobKeysOfAnyNameAreUnique(t *testing.T) {
	s := startedStore(t, Options{})
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-b.-]{1,4}(-[0-9]{1,3})?`)).Draw(t, "name")
		if name == "" {
			name = "x"
		}
		id, err := s.StartJob(context.Background(), aJob(name, JobRunning, 1))
		require.NoError(t, err)
		require.False(t, seen[id], id)
		seen[id] = true
		require.True(t, filepath.IsLocal(id) && filepath.Base(id) == id, id)
	})
}

func TestProcessesStartJobsOfOneNameAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	openStore(t, path, Options{})
	const stores, each = 4, 10
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range stores {
		s := openStore(t, path, Options{})
		wg.Go(func() {
			for range each {
				id, err := s.StartJob(context.Background(), aJob("x", JobRunning, 1))
				if err == nil {
					err = s.SaveAttempt(context.Background(), JobAttempt{Job: id, Attempt: 1, Started: 1})
				}
				mu.Lock()
				ids[id] = true
				if err != nil {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, ids, stores*each)
}

func TestBadJobsAreRefused(t *testing.T) {
	s := startedStore(t, Options{RetryFor: time.Hour})
	bad := []Job{{}, {Name: "x", Key: "k", State: JobRunning, Started: 1}, aJob("", JobRunning, 1), aJob("x", "odd", 1), aJob("x", JobRunning, 0)}
	for _, j := range bad {
		_, err := s.StartJob(t.Context(), j)
		require.Error(t, err)
	}
	require.ErrorContains(t, s.SaveJob(t.Context(), aJob("x", JobRunning, 1)), "a key is needed")
	require.Error(t, s.SaveAttempt(t.Context(), JobAttempt{Job: "x", Attempt: 1}))
	require.ErrorContains(t, s.SaveAttempt(t.Context(), JobAttempt{Job: "nosuch", Attempt: 1, Started: 1}), "FOREIGN KEY", "at once: no retry mends it")
	id := startJob(t, s, aJob("x", JobRunning, 1))
	require.Error(t, s.SaveAttempt(t.Context(), JobAttempt{Job: id, Attempt: 1, Started: 1, Settings: json.RawMessage("{")}))
	_, err := readerOf(t, s).Job(t.Context(), "nosuch")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestAJobIsWrittenOnceTheDatabaseIsFree(t *testing.T) {
	var mu sync.Mutex
	var warned []error
	failed := make(chan struct{}, 16)
	warn := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, err)
		failed <- struct{}{}
	}
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{BusyTimeout: time.Millisecond, RetryDelay: time.Millisecond, Warn: warn})
	other, err := sql.Open("sqlite3", sqlite.DSN(s.Path(), url.Values{"_txlock": {"immediate"}}))
	require.NoError(t, err)
	defer other.Close()
	lock, err := other.Begin()
	require.NoError(t, err)
	started := make(chan error, 1)
	go func() {
		_, err := s.StartJob(context.Background(), aJob("x", JobRunning, 1))
		started <- err
	}()
	<-failed
	require.NoError(t, lock.Rollback())
	require.NoError(t, <-started)
	var recovered *Recovered
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, warned, 2, "the first failure, and that it passed")
	require.ErrorContains(t, warned[0], "locked by another program")
	require.ErrorAs(t, warned[1], &recovered)
}

func TestALockedDatabaseCostsAJobNoMoreThanItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"),
		Options{BusyTimeout: time.Millisecond, RetryDelay: time.Hour, RetryFor: time.Hour, Warn: func(error) { cancel() }})
	other, err := sql.Open("sqlite3", sqlite.DSN(s.Path(), url.Values{"_txlock": {"immediate"}}))
	require.NoError(t, err)
	defer other.Close()
	lock, err := other.Begin()
	require.NoError(t, err)
	defer lock.Rollback() //nolint:errcheck // only a lock
	_, err = s.StartJob(ctx, aJob("x", JobRunning, 1))
	require.Error(t, err)
}

func TestJobsAreChosenByNameAgeAndNumber(t *testing.T) {
	s := startedStore(t, Options{})
	for i, j := range []Job{aJob("a", JobDone, 10), aJob("b", JobDone, 20), aJob("a", JobRunning, 30), aJob("c", JobWaiting, 5)} {
		if j.State == JobDone {
			j.Ended = j.Started + 5
		}
		id := startJob(t, s, j)
		require.NoError(t, s.SaveAttempt(t.Context(), JobAttempt{Job: id, Attempt: 1, Started: float64(i + 1)}))
	}
	r := readerOf(t, s)
	for _, x := range []struct {
		f    JobFilter
		want []string
	}{
		{JobFilter{}, []string{"a-2", "b-1", "a-1", "c-1"}}, {JobFilter{Limit: 2}, []string{"a-2", "b-1"}},
		{JobFilter{Since: 20}, []string{"a-2", "b-1", "c-1"}}, {JobFilter{Names: []string{"a"}}, []string{"a-2", "a-1"}},
		{JobFilter{Names: []string{"a-1", "c"}}, []string{"a-1", "c-1"}}, {JobFilter{Names: []string{"a", "b"}, Since: 20, Limit: 1}, []string{"a-2"}},
		{JobFilter{Names: []string{"nosuch"}}, nil},
	} {
		jobs, err := r.Jobs(t.Context(), x.f)
		require.NoError(t, err)
		var got []string
		for _, j := range jobs {
			got = append(got, j.Job)
			require.Len(t, j.Attempts, 1)
		}
		require.Equal(t, x.want, got, "%+v", x.f)
	}
}

// tried is an attempt with its result after a number of seconds.
type tried struct {
	batch   int
	cause   string
	seconds float64
	gpu     string
	peak    int64
	code    int
}

// learning adds one job per attempt, one after the other.
func learning(t testing.TB, s *Store, key string, attempts ...tried) {
	t.Helper()
	at := 1000.0
	for _, x := range attempts {
		j := aJob("x", JobDone, at)
		j.Key = key
		id := startJob(t, s, j)
		a := JobAttempt{Job: id, Attempt: 1, Started: at, Ended: at + x.seconds, BatchSize: x.batch, Cause: x.cause, GPUName: x.gpu,
			PeakGPU: x.peak, PeakHost: x.peak + 1}
		if a.Cause != CauseStopped {
			a.ExitCode = &x.code
		}
		if x.seconds == 0 {
			a.Ended = 0
		}
		require.NoError(t, s.SaveAttempt(context.Background(), a))
		at += 1000
	}
}

func TestWhatFittedIsLearned(t *testing.T) {
	const h, a = "H100", "A100"
	for _, x := range []struct {
		name   string
		tries  []tried
		batch  int // batch that fits on H100; 0: none
		bytes  int64
		shorts int
	}{
		{name: "nothing is known"},
		{name: "a success", tries: []tried{{32, "", 50, h, 7e9, 0}}, batch: 32, bytes: 7e9},
		{name: "one that goes on has proved nothing", tries: []tried{{32, "", 0, h, 7e9, 0}}},
		{name: "an exit code that is none of success", tries: []tried{{32, "", 50, h, 7e9, 1}, {32, "failed", 50, h, 7e9, 1}}},
		{name: "another GPU tells nothing", tries: []tried{{32, "", 50, a, 7e9, 0}, {64, "torch", 5, a, 8e9, 1}}},
		{name: "the newest counts", tries: []tried{{64, "", 50, h, 9e9, 0}, {32, "", 50, h, 7e9, 0}}, batch: 32, bytes: 7e9},
		{name: "its highest peak", tries: []tried{{32, "", 50, h, 8e9, 0}, {64, "", 50, h, 20e9, 0}, {32, "", 50, h, 7e9, 0}}, batch: 32, bytes: 8e9},
		{name: "no peak was measured", tries: []tried{{32, "", 50, h, 0, 0}}, batch: 32},
		{name: "stopped, and nothing ever ran out", tries: []tried{{32, "stopped", 5000, h, 7e9, 0}}},
		{name: "stopped before others ran out", shorts: 2,
			tries: []tried{{64, "torch", 50, h, 9e9, 1}, {64, "host_killed", 70, h, 9e9, 1}, {32, "stopped", 60, h, 7e9, 0}}},
		{name: "stopped after it had outlived all", batch: 32, bytes: 7e9, shorts: 1,
			tries: []tried{{64, "torch", 50, h, 9e9, 1}, {32, "stopped", 60, h, 7e9, 0}}},
		{name: "a shortage elsewhere is no measure", tries: []tried{{64, "torch", 50, a, 9e9, 1}, {32, "stopped", 60, h, 7e9, 0}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
			learning(t, s, "mine", x.tries...)
			learning(t, s, "other", tried{8, "", 1e6, h, 70e9, 0}, tried{8, "torch", 1e6, h, 70e9, 1})
			r := readerOf(t, s)
			fitted, ok, err := r.Fitted(t.Context(), "mine", h)
			require.NoError(t, err)
			require.Equal(t, x.batch > 0, ok)
			require.Equal(t, x.batch, fitted.BatchSize)
			bytes, known, err := r.LearnedBytes(t.Context(), "mine", h)
			require.NoError(t, err)
			require.Equal(t, []any{x.bytes, x.bytes > 0}, []any{bytes, known})
			shortages, err := r.Shortages(t.Context(), "mine", h)
			require.NoError(t, err)
			require.Len(t, shortages, x.shorts)
		})
	}
}

func TestOnTheCPUHostMemoryIsLearned(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	learning(t, s, "k", tried{4, "", 9, "", 5e9, 0}, tried{8, "", 9, "H100", 6e9, 0})
	bytes, known, err := readerOf(t, s).LearnedBytes(t.Context(), "k", "")
	require.NoError(t, err)
	require.Equal(t, []any{int64(5e9 + 1), true}, []any{bytes, known})
}

// Lookups before a command starts use an index, for any number of jobs.
func TestLearningSearchesByIndex(t *testing.T) {
	s := startedStore(t, Options{})
	for _, which := range []string{isFit, isShortage} {
		require.NoError(t, sqlite.Query(t.Context(), s.db, func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			require.NotContains(t, step, "SCAN job", "%s", which)
			return err
		}, "EXPLAIN QUERY PLAN SELECT 1 "+attemptsOfKey+" AND "+which, "k", "g"))
	}
}

func TestMigrationKeepsADatabaseOfSchema6(t *testing.T) {
	path := olderDatabase(t, 6, `
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan,
  versions, started, resumed) VALUES ('e-1', 'e', 'done', 1, 2, 1, 4, 4, 8, '{}', '{}', '{}', 5, 5);
INSERT INTO attempts (run, attempt, started, seen, state) VALUES ('e-1', 1, 5, 6, 'done');
INSERT INTO nodes (run, node) VALUES ('e-1', 'node_0');
INSERT INTO events (run, node, type, time, state, cause, message, pid) VALUES ('e-1', '', 'run_started', 5, '', '', '', 0);`)

	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err, "it can be read as it is")
	defer r.Close()
	none, err := r.Jobs(t.Context(), JobFilter{})
	require.NoError(t, err)
	require.Empty(t, none)
	_, ok, err := r.Fitted(t.Context(), "k", "g")
	require.NoError(t, err)
	require.False(t, ok)
	_, err = r.Job(t.Context(), "x")
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, r.Dump(t.Context(), "jobs", "x", "", func([]any) error { return errors.New("a row") }))

	s := openStore(t, path, Options{})
	id := startJob(t, s, aJob("x", JobRunning, 1))
	requireIntact(t, s)
	runs, err := r.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	attempts, err := r.Attempts(t.Context(), "e-1")
	require.NoError(t, err)
	require.Equal(t, []Attempt{{Attempt: 1, Started: 5, Seen: 6, State: "done"}}, attempts)
	entries, err := r.Timeline(t.Context(), "e-1", 0, 9)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	got, err := r.Job(t.Context(), id)
	require.NoError(t, err, "who had it open sees what came")
	require.Equal(t, "x", got.Name)
}

func TestALiveJobIsSeen(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{SeenInterval: time.Millisecond})
	r := readerOf(t, s)
	j := aJob("x", JobWaiting, 100)
	j.Job = startJob(t, s, j)
	seen := func() float64 {
		got, err := r.Job(t.Context(), j.Job)
		require.NoError(t, err)
		return got.Seen
	}
	for _, j.State = range []string{JobWaiting, JobRunning} {
		before := event.Now()
		require.NoError(t, s.SaveJob(t.Context(), j))
		require.Eventually(t, func() bool { return seen() > before }, time.Minute, time.Millisecond, "by the clock of this moment, however old the job's start")
	}
	j.State, j.Ended = JobDone, 165
	require.NoError(t, s.SaveJob(t.Context(), j))
	last := seen()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, s.Close())
	require.Equal(t, last, seen(), "a job that has ended is seen no more")
}

func TestJobsFromBeforeHeartbeatsCanBeRead(t *testing.T) {
	path := olderDatabase(t, schemaJobSeen-1,
		"INSERT INTO jobs (job, name, key, command, state, started) VALUES ('x-1', 'x', 'k', '[]', 'running', 5)")
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer r.Close()
	want := Job{Job: "x-1", Name: "x", Key: "k", Command: []string{}, State: JobRunning, Started: 5}
	got, err := r.Job(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, want, got)
	requireIntact(t, openStore(t, path, Options{}))
	got, err = r.Job(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, want, got, "after the migration")
}

func BenchmarkStoreOfAJob(b *testing.B) {
	path := filepath.Join(b.TempDir(), "swarm.db")
	s := openStore(b, path, Options{})
	learning(b, s, "k", tried{64, "torch", 50, "H100", 9e9, 1}, tried{32, "", 60, "H100", 7e9, 0})
	for range 1000 {
		startJob(b, s, aJob("other", JobDone, 1))
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			again, err := Open(context.Background(), path, Options{})
			require.NoError(b, err)
			require.NoError(b, again.Close())
		}
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			startJob(b, s, aJob("x", JobRunning, 1))
		}
	})
	r, err := OpenReader(context.Background(), path)
	require.NoError(b, err)
	defer r.Close()
	b.Run("learned", func(b *testing.B) {
		for b.Loop() {
			_, ok, err := r.LearnedBytes(context.Background(), "k", "H100")
			require.NoError(b, err)
			require.True(b, ok)
		}
	})
}
