-- Records of `swarm run`: jobs, and each start of their commands. Names, units and formulas: docs/METRICS.md.

CREATE TABLE jobs (
  job         TEXT    PRIMARY KEY,
  name        TEXT    NOT NULL,
  key         TEXT    NOT NULL,                              -- sha256 of what identifies the command
  command     TEXT    NOT NULL CHECK (json_valid(command)),  -- as typed, with its places
  dir         TEXT    NOT NULL DEFAULT '',
  host        TEXT    NOT NULL DEFAULT '',
  pid         INTEGER NOT NULL DEFAULT 0,                    -- of swarm run; with start_ticks and boot_id exactly one process
  start_ticks INTEGER NOT NULL DEFAULT 0,
  boot_id     TEXT    NOT NULL DEFAULT '',
  state       TEXT    NOT NULL,                              -- waiting, running, done, failed, stopped
  started     REAL    NOT NULL,
  ended       REAL,                                          -- NULL: it goes on, or died without a word
  exit_code   INTEGER,                                       -- that was passed on
  reason      TEXT    NOT NULL DEFAULT '',
  log         TEXT    NOT NULL DEFAULT ''                    -- path
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_key ON jobs (key);
CREATE INDEX jobs_by_name ON jobs (name);
CREATE INDEX jobs_by_start ON jobs (started);

CREATE TABLE job_attempts (
  job                    TEXT    NOT NULL REFERENCES jobs ON DELETE CASCADE,
  attempt                INTEGER NOT NULL,                   -- from 1
  started                REAL    NOT NULL,
  ended                  REAL,                               -- NULL: it goes on, or was never heard of again
  device                 TEXT    NOT NULL DEFAULT '',        -- cuda, cpu
  gpu                    TEXT    NOT NULL DEFAULT '',        -- UUID
  gpu_name               TEXT    NOT NULL DEFAULT '',
  gpu_total_bytes        INTEGER,                            -- bytes: NULL where not told, or not measured
  batch_size             INTEGER,                            -- NULL: swarm didn't set one
  accumulate             INTEGER,
  gradient_checkpointing INTEGER NOT NULL DEFAULT 0,
  offload                INTEGER NOT NULL DEFAULT 0,
  settings               TEXT    NOT NULL CHECK (json_valid(settings)), -- every value that was put into the command
  step                   TEXT    NOT NULL DEFAULT '',        -- what was changed before it, and why
  exit_code              INTEGER,                            -- NULL: a signal ended it, or nothing did yet
  signal                 TEXT    NOT NULL DEFAULT '',
  cause                  TEXT    NOT NULL DEFAULT '',        -- '': it succeeded, or goes on; failed; stopped; else what ran out
  asked_bytes            INTEGER,                            -- of a shortage, like the next two
  free_bytes             INTEGER,
  allocated_bytes        INTEGER,
  peak_gpu_bytes         INTEGER,
  peak_host_bytes        INTEGER,
  message                TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;
