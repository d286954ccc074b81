-- Names, units and formulas: docs/METRICS.md. Times are Unix seconds, durations seconds, memory bytes, ratios 0..1.

CREATE TABLE runs (
  run                  TEXT    PRIMARY KEY,
  experiment           TEXT    NOT NULL,
  state                TEXT    NOT NULL,
  message              TEXT    NOT NULL DEFAULT '',
  preset               TEXT    NOT NULL DEFAULT '',
  model                TEXT    NOT NULL DEFAULT '',
  device               TEXT    NOT NULL DEFAULT '',
  seed                 INTEGER NOT NULL,
  rounds               INTEGER NOT NULL,            -- planned
  nodes                INTEGER NOT NULL,            -- planned
  num_train_samples    INTEGER NOT NULL,            -- I
  num_transplant_trees INTEGER NOT NULL,            -- J
  num_generations      INTEGER NOT NULL,            -- G
  config               TEXT    NOT NULL CHECK (json_valid(config)),
  plan                 TEXT    NOT NULL CHECK (json_valid(plan)),
  versions             TEXT    NOT NULL CHECK (json_valid(versions)),
  host                 TEXT    NOT NULL DEFAULT '',
  pid                  INTEGER NOT NULL DEFAULT 0,  -- coordinator's
  pid_started          REAL    NOT NULL DEFAULT 0,  -- tells a recycled pid
  attempts             INTEGER NOT NULL DEFAULT 1,  -- 1 + times resumed
  started              REAL    NOT NULL,            -- first attempt
  resumed              REAL    NOT NULL,            -- newest attempt
  ended                REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_experiment ON runs (experiment, resumed);

CREATE TABLE nodes (
  run                    TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  node                   TEXT    NOT NULL,
  state                  TEXT    NOT NULL DEFAULT 'queued',
  state_rank             INTEGER NOT NULL DEFAULT -1, -- decides between states of one instant
  state_time             REAL    NOT NULL DEFAULT 0,
  working_round          INTEGER NOT NULL DEFAULT 0,  -- from 0
  pid                    INTEGER NOT NULL DEFAULT 0,  -- 0: no process
  pid_time               REAL    NOT NULL DEFAULT 0,
  restarts               INTEGER NOT NULL DEFAULT 0,
  cause                  TEXT    NOT NULL DEFAULT '', -- of the newest failure
  message                TEXT    NOT NULL DEFAULT '',
  message_time           REAL    NOT NULL DEFAULT 0,
  rounds_done            INTEGER NOT NULL DEFAULT 0,  -- rows in rounds
  last_round             INTEGER NOT NULL DEFAULT -1, -- highest in rounds
  last_reward            REAL,                        -- of last_round
  cumulative_reward      REAL    NOT NULL DEFAULT 0,  -- sum of rounds.reward
  rss_bytes              INTEGER NOT NULL DEFAULT 0,
  peak_rss_bytes         INTEGER NOT NULL DEFAULT 0,
  device_bytes           INTEGER NOT NULL DEFAULT 0,
  device_peak_bytes      INTEGER NOT NULL DEFAULT 0,
  memory_time            REAL    NOT NULL DEFAULT 0,
  model                  TEXT    NOT NULL DEFAULT '',
  parameters             INTEGER NOT NULL DEFAULT 0,
  context_length         INTEGER NOT NULL DEFAULT 0,
  torch                  TEXT    NOT NULL DEFAULT '',
  device                 TEXT    NOT NULL DEFAULT '',
  load_seconds           REAL,
  self_test_max_abs_diff REAL,                        -- NULL: not finite, or not loaded yet
  engine_pid             INTEGER NOT NULL DEFAULT 0,
  start_round            INTEGER NOT NULL DEFAULT 0,
  loaded_time            REAL    NOT NULL DEFAULT 0,
  last_event             REAL    NOT NULL DEFAULT 0,
  PRIMARY KEY (run, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE rounds (
  run                       TEXT    NOT NULL,
  round                     INTEGER NOT NULL,
  node                      TEXT    NOT NULL,
  time                      REAL    NOT NULL,
  reward                    REAL,
  reward_std                REAL,
  training_reward           REAL,
  frac_reward_zero_std      REAL,
  format_rate               REAL,
  completions               INTEGER NOT NULL,
  completions_mean_length   REAL,
  completions_clipped_ratio REAL,
  loss                      REAL,
  kl                        REAL,
  grad_norm                 REAL,
  entropy                   REAL,
  clip_ratio_low            REAL,
  clip_ratio_high           REAL,
  steps                     INTEGER NOT NULL,
  trained_own               INTEGER NOT NULL,
  trained_external          INTEGER NOT NULL,
  step_time                 REAL,
  generate_time             REAL,
  update_time               REAL,
  score_time                REAL,
  lease_time                REAL,
  barrier_time              REAL,
  late                      INTEGER NOT NULL,
  non_finite                TEXT    NOT NULL, -- why a column is NULL: 'loss=nan grad_norm=+inf'
  PRIMARY KEY (run, round, node),
  FOREIGN KEY (run, node) REFERENCES nodes ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE task_rewards (
  run         TEXT    NOT NULL,
  round       INTEGER NOT NULL,
  node        TEXT    NOT NULL,
  task        TEXT    NOT NULL,
  completions INTEGER NOT NULL,
  reward_sum  REAL,                           -- NULL: not finite
  PRIMARY KEY (run, round, node, task),
  FOREIGN KEY (run, round, node) REFERENCES rounds ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE peers (
  run       TEXT    NOT NULL,
  round     INTEGER NOT NULL,
  node      TEXT    NOT NULL,
  peer      TEXT    NOT NULL,
  available INTEGER NOT NULL,
  rejected  INTEGER NOT NULL,
  filtered  INTEGER NOT NULL,
  used      INTEGER NOT NULL,
  late      INTEGER NOT NULL,
  PRIMARY KEY (run, round, node, peer),
  FOREIGN KEY (run, round, node) REFERENCES rounds ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE memory (
  run               TEXT    NOT NULL,
  node              TEXT    NOT NULL,
  time              INTEGER NOT NULL,         -- start of the slot
  rss_bytes         INTEGER NOT NULL,         -- every column: highest within the slot
  peak_rss_bytes    INTEGER NOT NULL,
  device_bytes      INTEGER NOT NULL,
  device_peak_bytes INTEGER NOT NULL,
  PRIMARY KEY (run, node, time),
  FOREIGN KEY (run, node) REFERENCES nodes ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  run         TEXT    NOT NULL,
  node        TEXT    NOT NULL,
  round       INTEGER NOT NULL,               -- rounds done
  time        REAL    NOT NULL,
  path        TEXT    NOT NULL,
  bytes       INTEGER NOT NULL,
  weight_hash TEXT    NOT NULL,
  seconds     REAL,
  PRIMARY KEY (run, node, round),
  FOREIGN KEY (run, node) REFERENCES nodes ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  id        INTEGER PRIMARY KEY,
  run       TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  node      TEXT    NOT NULL,                 -- '': the run's own
  type      TEXT    NOT NULL,
  time      REAL    NOT NULL,
  state     TEXT    NOT NULL,
  cause     TEXT    NOT NULL,
  message   TEXT    NOT NULL,
  pid       INTEGER NOT NULL,
  exit_code INTEGER,
  seconds   REAL,
  UNIQUE (run, time, node, type, pid, message)
) STRICT;
