-- Held-out evaluations. Names, units and formulas: docs/METRICS.md.

CREATE TABLE evals (
  run                     TEXT    NOT NULL,
  round                   INTEGER NOT NULL,   -- rounds that the weights hold
  node                    TEXT    NOT NULL,
  time                    REAL    NOT NULL,
  question_set            TEXT    NOT NULL,   -- only equal sets compare
  questions               INTEGER NOT NULL,   -- rows in eval_questions
  generations             INTEGER NOT NULL,   -- completions a question
  temperature             REAL,
  format_rate             REAL,
  completions_mean_length REAL,
  seconds                 REAL,
  correct                 INTEGER NOT NULL,   -- sum over questions
  reward_sum              REAL    NOT NULL,   -- sum over questions, of those that are finite
  non_finite              TEXT    NOT NULL,   -- why a column is NULL: 'seconds=nan', 'question_3=+inf' for a reward_sum
  PRIMARY KEY (run, round, node),
  FOREIGN KEY (run, node) REFERENCES nodes ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE eval_questions (
  run        TEXT    NOT NULL,
  round      INTEGER NOT NULL,
  node       TEXT    NOT NULL,
  question   INTEGER NOT NULL,                -- from 0, in the set's order
  task       TEXT    NOT NULL,
  correct    INTEGER NOT NULL,
  reward_sum REAL,                            -- NULL: not finite
  PRIMARY KEY (run, round, node, question),
  FOREIGN KEY (run, round, node) REFERENCES evals ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
