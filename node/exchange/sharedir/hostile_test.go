package sharedir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// An untrusted sender with access to the folder plants links, pipes, decompression bombs and garbage under every name
// that readers look at. Readers still find the honest batch, read nothing outside the folder, never block, and use
// bounded memory.
func TestHostileFiles(t *testing.T) {
	dir := newFolder(t)
	var log logLines
	honest := open(t, Options{Dir: dir, Run: testRun, Node: "honest"})
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader", Logger: log.logger()})
	share(t, honest, 0)
	folder := filepath.Join(dir, base, blockPath(testRun, 0))
	secret := filepath.Join(t.TempDir(), "secret")
	data, err := exchange.Encode(batchOf("linked", 0, "a secret"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(secret, pack(data), 0o600))
	named := func(node string, size int64, hash string) string {
		return filepath.Join(folder, fmt.Sprintf("%s-%d-%s.json.zst", rolloutStem(node, 0, "0123abcd"), size, hash))
	}
	require.NoError(t, os.Symlink(secret, named("linked", int64(len(pack(data))), hashOf(pack(data)))))
	require.NoError(t, syscall.Mkfifo(named("pipe", 10, strings.Repeat("0", 32)), 0o666))
	require.NoError(t, os.Mkdir(named("folder", 10, strings.Repeat("0", 32)), 0o755))
	huge := named("huge", 1<<39, strings.Repeat("0", 32))
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 1<<39))
	bomb := zeros(t, 1<<30)
	require.Less(t, len(bomb), 1<<20)
	require.NoError(t, os.WriteFile(named("bomb", int64(len(bomb)), hashOf(bomb)), bomb, 0o600))
	for i := range 500 {
		require.NoError(t, os.WriteFile(named("honest", int64(i), fmt.Sprintf("%032x", i)), []byte("not that"), 0o600))
	}
	for _, name := range []string{"..zst", "a\nb.zst", "-0-0.zst", strings.Repeat("x", 255), "ü", "honest-00000000-0123abcd-x-y"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := reader.Gather(t.Context(), 0, []string{"linked", "pipe", "folder", "huge", "bomb"}, exchange.Barrier{})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20))
	for i, r := range got[:4] {
		require.Nil(t, r, i)
	}
	require.NotEmpty(t, got[4].Rejected, "the bomb is whole, and no batch")
	require.Equal(t, 1, log.count("huge"), "one warning")
}

// zeros returns a frame that unpacks to size zeros.
func zeros(t *testing.T, size int64) []byte {
	var b bytes.Buffer
	e, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	block := make([]byte, 1<<20)
	for range size / int64(len(block)) {
		_, err := e.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close())
	return b.Bytes()
}

// Readers do not enter folders that are links or pipes.
func TestHostileFolders(t *testing.T) {
	dir := newFolder(t)
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	outside := t.TempDir()
	s := &folderSwarm{dir: dir}
	data, err := exchange.Encode(batchOf("a", 16, "outside"))
	require.NoError(t, err)
	s.Plant(t, 16, "a", data)
	rollouts := filepath.Join(dir, base, runPath(testRun), rolloutsPart)
	require.NoError(t, os.Rename(filepath.Join(rollouts, "00000016"), filepath.Join(outside, "block")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "block"), filepath.Join(rollouts, "00000016")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(rollouts, "00000032"), 0o666))
	for _, round := range []int{16, 32} {
		got, err := reader.Gather(t.Context(), round, []string{"a"}, exchange.Barrier{})
		if err == nil {
			require.Nil(t, got[0])
		}
	}
	share(t, reader, 0)
	require.NoError(t, Sweep(t.Context(), dir, testRun, 64))
	require.DirExists(t, filepath.Join(outside, "block"))
	names, err := os.ReadDir(filepath.Join(outside, "block"))
	require.NoError(t, err)
	require.Len(t, names, 1, "what a link leads to is not deleted")
}
