package store

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/store/extract"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Extract writes a consistent copy of these runs to a new database at path, while other processes continue to write.
// The file must not exist. The copy is small and has the data that statistics need. Rewards of rounds are exact. Times
// are rounded to 1/1024 s, differences of log-probabilities to 2^-30 and other measurements to 1/16384. Rewards by task
// are sums over ranges of 25 rounds, and some tables are empty.
//
// The copy can be shared: it omits hosts, processes, folders and UUIDs of GPUs. It keeps names of experiments, nodes
// and workers. Equal runs produce equal bytes. Extract returns the number of copied rows. After an error it leaves no
// file.
func (r *Reader) Extract(ctx context.Context, path string, runs []string) (rows int, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return 0, fmt.Errorf("extract: %w", err)
	}
	return extract.File(ctx, r.source(), path, runs)
}

func (r *Reader) source() extract.Source { return extract.Source{Path: r.path, Driver: r.driver} }

// IsExtract reports whether Extract wrote a file, plain or compressed, by its first bytes. It is false for a file in
// which runs were recorded later, and for a copy of a whole database.
func IsExtract(path string) bool { return sqlite.IsExtract(path) }
