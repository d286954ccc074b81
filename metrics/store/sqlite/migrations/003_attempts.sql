-- A run's attempts and its price, replayed updates, and the exact identity of a coordinator's process. Names, units and
-- formulas: docs/METRICS.md.

ALTER TABLE runs DROP COLUMN pid_started;                            -- it rested on the clock
ALTER TABLE runs ADD COLUMN start_ticks    INTEGER NOT NULL DEFAULT 0;  -- of /proc/PID/stat; with pid and boot_id exactly one process
ALTER TABLE runs ADD COLUMN boot_id        TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN price_per_hour REAL;                        -- NULL: unknown
ALTER TABLE runs ADD COLUMN price_currency TEXT    NOT NULL DEFAULT ''; -- as given: $, EUR

CREATE TABLE attempts (
  run     TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  attempt INTEGER NOT NULL,                -- from 1
  started REAL    NOT NULL,
  seen    REAL    NOT NULL,                -- the coordinator was alive then
  ended   REAL,                            -- NULL: it runs, or died without a word
  state   TEXT    NOT NULL,                -- running, crashed, or as in runs
  message TEXT    NOT NULL DEFAULT '',
  host    TEXT    NOT NULL DEFAULT '',
  pid     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, attempt)
) STRICT, WITHOUT ROWID;

-- For a run from before this schema, only the newest attempt is known.
INSERT INTO attempts (run, attempt, started, seen, ended, state, message, host, pid)
SELECT run, attempts, resumed,
  max(resumed, coalesce(ended, 0.0), coalesce((SELECT max(last_event) FROM nodes WHERE nodes.run = runs.run), 0.0)),
  ended, state, message, host, pid
FROM runs;

ALTER TABLE rounds ADD COLUMN journal_time REAL;

ALTER TABLE checkpoints ADD COLUMN pause REAL;  -- of seconds, those in which the node could not train

ALTER TABLE nodes ADD COLUMN replayed_rounds INTEGER NOT NULL DEFAULT 0; -- sum over its loads
ALTER TABLE nodes ADD COLUMN replay_seconds  REAL    NOT NULL DEFAULT 0;
