-- Heartbeats of jobs. Names, units and formulas: docs/METRICS.md.

ALTER TABLE jobs ADD COLUMN seen REAL NOT NULL DEFAULT 0; -- swarm run was alive then
