-- Runs that another program recorded. Names, units and formulas: docs/METRICS.md.

CREATE TABLE imports (
  run      TEXT PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
  format   TEXT NOT NULL,                          -- the other program's records
  source   TEXT NOT NULL,                          -- where they lay
  digest   TEXT NOT NULL,                          -- of what was imported
  imported REAL NOT NULL,                          -- when
  notes    TEXT NOT NULL CHECK (json_valid(notes)) -- what was found, assumed and left out
) STRICT, WITHOUT ROWID;

CREATE TABLE imported_rounds (
  run         TEXT    NOT NULL,
  round       INTEGER NOT NULL,
  node        TEXT    NOT NULL,
  reward_sum  REAL,                                -- as recorded, over completions; NULL: not finite
  completions INTEGER NOT NULL,                    -- what it was divided by
  records     INTEGER NOT NULL,                    -- that told of it, doubled ones included
  source      TEXT    NOT NULL,                    -- kind of the record that counts
  PRIMARY KEY (run, round, node),
  FOREIGN KEY (run, round, node) REFERENCES rounds ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
