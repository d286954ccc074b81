-- The mean length of the completions that ended by themselves. Names, units and formulas: docs/METRICS.md.

ALTER TABLE rounds ADD COLUMN completions_mean_terminated_length REAL; -- NULL: none did, or not known
