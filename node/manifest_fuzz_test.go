package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzManifest reads untrusted bytes as a checkpoint's manifest. The manifest never names another file than its
// own. Written again, it reads back the same, and not after any byte of it has changed.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"round":4,"file":"`+checkpointName(4)+`.safetensors","weight_hash":"x"}`), 3)
	f.Add([]byte(`{"round":4,"file":"../../etc/passwd"}`), 0)
	f.Add([]byte(`{"version":99999,"round":4}`), 9)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		path := filepath.Join(t.TempDir(), checkpointName(4)+".json")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		m, err := readManifest(path)
		if err != nil {
			return
		}
		require.Equal(t, checkpointName(4)+".safetensors", m.File)
		m.Version = manifestVersion
		require.NoError(t, m.write(path))
		again, err := readManifest(path)
		require.NoError(t, err)
		m.Sum = again.Sum
		require.Equal(t, m, again)
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		damaged := bytes.Clone(written)
		damaged[uint(at)%uint(len(damaged))] ^= 1 << (uint(at) % 8)
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, err = readManifest(path)
		require.Error(t, err, "%s\n%s", written, damaged)
	})
}
