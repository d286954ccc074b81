-- I and J of a round if the run's split is not fixed. Names, units and formulas: docs/METRICS.md.

ALTER TABLE rounds ADD COLUMN split_own      INTEGER; -- I; NULL: the run's own, as configured
ALTER TABLE rounds ADD COLUMN split_external INTEGER; -- J, asked for: trained_external is what was to be had
