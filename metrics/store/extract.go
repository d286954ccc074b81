package store

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/store/extract"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Extract writes these runs to a database of their own at path, which must not be there, as they are at one moment,
// while others go on writing. It holds what statistics of runs need and is small: of rounds the reward is whole, times
// are multiples of 1/1024 s, differences of log-probabilities of 2^-30 and the other measurements of 1/16384, rewards
// by task are sums over stretches of 25 rounds, and some tables are empty. It is made to be handed on: hosts,
// processes, folders and GPUs' UUIDs are not in it, names of experiments, nodes and workers are. Equal runs make equal
// bytes. It returns how many rows were taken. Where it fails it leaves no file.
func (r *Reader) Extract(ctx context.Context, path string, runs []string) (rows int, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return 0, fmt.Errorf("extract: %w", err)
	}
	return extract.File(ctx, r.source(), path, runs)
}

func (r *Reader) source() extract.Source { return extract.Source{Path: r.path, Driver: r.driver} }

// IsExtract tells whether a file is what Extract wrote, plain or compressed, by its first bytes. One that runs were
// recorded in since isn't, nor is a copy of a whole database.
func IsExtract(path string) bool { return sqlite.IsExtract(path) }
