-- Host memory as processes' proportional share (PSS), where pages that engines share count once. Names and units: docs/METRICS.md.

ALTER TABLE nodes ADD COLUMN pss_bytes INTEGER;       -- of rss_bytes; NULL: not known
ALTER TABLE nodes ADD COLUMN peak_pss_bytes INTEGER;  -- of peak_rss_bytes; NULL: not known
ALTER TABLE memory ADD COLUMN pss_bytes INTEGER;      -- NULL: not known
ALTER TABLE memory ADD COLUMN peak_pss_bytes INTEGER; -- NULL: not known
