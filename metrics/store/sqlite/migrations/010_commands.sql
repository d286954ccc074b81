-- The command that began each attempt. Secrets are masked before they are recorded. Names, units and formulas: docs/METRICS.md.

CREATE TABLE commands (
  run         TEXT    NOT NULL,
  attempt     INTEGER NOT NULL,
  folder      TEXT    NOT NULL,                                 -- working directory
  arguments   TEXT    NOT NULL CHECK (json_valid(arguments)),   -- a list of words, without the program
  environment TEXT    NOT NULL CHECK (json_valid(environment)), -- a list of NAME=value, of the variables that decide something
  PRIMARY KEY (run, attempt),
  FOREIGN KEY (run, attempt) REFERENCES attempts ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
