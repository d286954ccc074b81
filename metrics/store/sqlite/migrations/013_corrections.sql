-- Effects of the correction of others' completions. Names, units and formulas: docs/METRICS.md.

ALTER TABLE rounds ADD COLUMN external_clip_ratio REAL; -- NULL: no correction, nothing of others' computed, or not known
ALTER TABLE rounds ADD COLUMN external_dropped    REAL;
ALTER TABLE rounds ADD COLUMN external_ess        REAL;
