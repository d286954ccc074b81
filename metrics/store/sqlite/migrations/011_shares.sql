-- Host memory as the proportional share (PSS) of processes, which counts pages that engines share once. Names and units:
-- docs/METRICS.md.

ALTER TABLE nodes ADD COLUMN pss_bytes INTEGER;       -- of rss_bytes; NULL: not known
ALTER TABLE nodes ADD COLUMN peak_pss_bytes INTEGER;  -- of peak_rss_bytes; NULL: not known
ALTER TABLE memory ADD COLUMN pss_bytes INTEGER;      -- NULL: not known
ALTER TABLE memory ADD COLUMN peak_pss_bytes INTEGER; -- NULL: not known
