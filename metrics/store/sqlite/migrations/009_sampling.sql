-- The difference between the update's log-probabilities and the sampler's. Names, units and formulas: docs/METRICS.md.

ALTER TABLE rounds ADD COLUMN sampling_logp_difference_max  REAL; -- NULL: not known, or no own completion was computed
ALTER TABLE rounds ADD COLUMN sampling_logp_difference_mean REAL;
