-- Nodes of other hosts: their worker, first round and presence, and the delivered part of their events. Names, units and
-- formulas: docs/METRICS.md.

ALTER TABLE nodes ADD COLUMN worker        TEXT    NOT NULL DEFAULT ''; -- '': of the coordinator's own host
ALTER TABLE nodes ADD COLUMN from_round    INTEGER NOT NULL DEFAULT 0;  -- the first round that is its
ALTER TABLE nodes ADD COLUMN absent        TEXT    NOT NULL DEFAULT ''; -- away, left; '': it is there
ALTER TABLE nodes ADD COLUMN absent_time   REAL    NOT NULL DEFAULT 0;  -- of the newest join or leave, by the coordinator's clock
ALTER TABLE nodes ADD COLUMN generate_only INTEGER NOT NULL DEFAULT 0;  -- as its newest round

ALTER TABLE rounds ADD COLUMN staleness     REAL;
ALTER TABLE rounds ADD COLUMN generate_only INTEGER NOT NULL DEFAULT 0; -- 1: what a training would have given is NULL

ALTER TABLE peers ADD COLUMN reason TEXT NOT NULL DEFAULT ''; -- why something was rejected: the newest

CREATE TABLE workers (
  run        TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  worker     TEXT    NOT NULL,
  host       TEXT    NOT NULL DEFAULT '',
  device     TEXT    NOT NULL DEFAULT '',
  version    TEXT    NOT NULL DEFAULT '',          -- of its program
  state      TEXT    NOT NULL DEFAULT 'connected', -- connected, away, left, revoked, banned
  state_time REAL    NOT NULL DEFAULT 0,
  first_seen REAL    NOT NULL DEFAULT 0,
  last_seen  REAL    NOT NULL DEFAULT 0,
  nodes      INTEGER NOT NULL DEFAULT 0,           -- that it brought
  offered    INTEGER NOT NULL DEFAULT 0,           -- batches, since the coordinator's newest start, like the next two
  refused    INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,           -- that it sent
  reason     TEXT    NOT NULL DEFAULT '',          -- of its state, or of the newest refusal
  PRIMARY KEY (run, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
  run    TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  worker TEXT    NOT NULL,
  outbox TEXT    NOT NULL,
  acked  INTEGER NOT NULL,                         -- number of the newest event that is here, like all before it
  time   REAL    NOT NULL,                         -- of the newest delivery
  PRIMARY KEY (run, worker, outbox)
) STRICT, WITHOUT ROWID;

-- Reports of two workers with the same time are two rows: the worker's name is part of the key.
CREATE TABLE events_6 (
  id        INTEGER PRIMARY KEY,
  run       TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  node      TEXT    NOT NULL,                 -- '': the run's own, or its worker's
  worker    TEXT    NOT NULL DEFAULT '',      -- whose it is; '': the coordinator's own host
  type      TEXT    NOT NULL,
  time      REAL    NOT NULL,
  state     TEXT    NOT NULL,
  cause     TEXT    NOT NULL,
  message   TEXT    NOT NULL,
  pid       INTEGER NOT NULL,
  exit_code INTEGER,
  seconds   REAL,
  detail    TEXT    NOT NULL DEFAULT '' CHECK (detail = '' OR json_valid(detail)), -- a memory_step's numbers, a join's round
  UNIQUE (run, time, node, type, pid, message, worker)
) STRICT;
INSERT INTO events_6 (id, run, node, type, time, state, cause, message, pid, exit_code, seconds, detail)
SELECT id, run, node, type, time, state, cause, message, pid, exit_code, seconds, detail FROM events ORDER BY id;
DROP TABLE events;
ALTER TABLE events_6 RENAME TO events;
