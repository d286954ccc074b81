-- A node's GPU memory by phase, memory shortages and the steps against them, the driver's figures for GPUs, and measured
-- footprints. Names, units and formulas: docs/METRICS.md.

ALTER TABLE nodes ADD COLUMN resident_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN generate_bytes INTEGER NOT NULL DEFAULT 0; -- highest of a generate phase, beyond resident
ALTER TABLE nodes ADD COLUMN update_bytes   INTEGER NOT NULL DEFAULT 0; -- highest of an update phase, beyond resident
ALTER TABLE nodes ADD COLUMN micro_batch    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN budget_bytes   INTEGER NOT NULL DEFAULT 0; -- 0: none

ALTER TABLE events ADD COLUMN detail TEXT NOT NULL DEFAULT '' CHECK (detail = '' OR json_valid(detail)); -- a memory_step's numbers

CREATE TABLE devices (
  run                 TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
  uuid                TEXT    NOT NULL,
  time                INTEGER NOT NULL,         -- start of the slot
  gpu                 INTEGER NOT NULL,         -- index
  name                TEXT    NOT NULL,
  memory_total_bytes  INTEGER NOT NULL,
  memory_used_bytes   INTEGER NOT NULL,         -- highest within the slot
  unattributed_bytes  INTEGER NOT NULL,         -- of that
  utilization         REAL,                     -- the last of the slot, like all below; NULL: the driver doesn't tell
  power_watts         REAL,
  power_limit_watts   REAL,
  temperature_celsius REAL,
  PRIMARY KEY (run, uuid, time)
) STRICT, WITHOUT ROWID;

CREATE TABLE footprints (
  model                       TEXT    NOT NULL,
  settings                    TEXT    NOT NULL CHECK (json_valid(settings)), -- what memory depends on
  torch                       TEXT    NOT NULL,
  gpu                         TEXT    NOT NULL, -- name; cpu
  resident_bytes              INTEGER NOT NULL,
  generate_base_bytes         INTEGER NOT NULL,
  generate_per_sequence_bytes INTEGER NOT NULL,
  update_base_bytes           INTEGER NOT NULL,
  update_per_sequence_bytes   INTEGER NOT NULL,
  profiled                    REAL    NOT NULL,
  raised                      REAL    NOT NULL DEFAULT 0, -- when a run last took more than this said; 0: never
  points                      TEXT    NOT NULL CHECK (json_valid(points)), -- what was measured
  PRIMARY KEY (model, settings, torch, gpu)
) STRICT, WITHOUT ROWID;
