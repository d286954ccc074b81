package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoan measures the cost of --set for a job: two attempts, then Revert.
func BenchmarkLoan(b *testing.B) {
	dir, state := copyOf(b), b.TempDir()
	p := Place{File: "conf/config.yaml", Key: "data_loader.batch_size"}
	for b.Loop() {
		l, err := Lend(state, dir, "job", []Place{p})
		require.NoError(b, err)
		require.NoError(b, l.Set([]Change{{p, "22"}}))
		require.NoError(b, l.Set([]Change{{p, "11"}}))
		require.NoError(b, l.Revert())
	}
}

// BenchmarkPrepare measures the cost of swarm tune --dry-run with six files.
func BenchmarkPrepare(b *testing.B) {
	dir := copyOf(b)
	changes := append(negatives("8"), Change{Place{File: "conf/config.yaml", Key: "data_loader.batch_size"}, "22"})
	for b.Loop() {
		e, err := Prepare(dir, changes)
		require.NoError(b, err)
		require.NotEmpty(b, e.Diff())
	}
}
