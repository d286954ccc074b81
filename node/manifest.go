package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// manifestVersion is the version of new manifests. Manifests without a version have neither a sum nor an owner.
const manifestVersion = 1

// errNewerManifest reports an intact manifest with a version that this program cannot read.
var errNewerManifest = errors.New("a newer version of the program wrote it")

// owner identifies the run, node and model of a checkpoint. An empty field is unknown.
type owner struct {
	Run   string `json:"run,omitempty"`
	Node  string `json:"node,omitempty"`
	Model string `json:"model,omitempty"`
}

// manifest describes a checkpoint file and makes it valid.
type manifest struct {
	Version int `json:"version"`
	owner
	Round      int     `json:"round"` // rounds done
	File       string  `json:"file"`
	SHA256     string  `json:"sha256"`
	WeightHash string  `json:"weight_hash"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	Pause      float64 `json:"pause"`

	Split json.RawMessage `json:"split,omitempty"` // Node.splitState, if the node decides its I and J itself

	Sum string `json:"sum,omitempty"` // CRC-32C of the manifest with zeros in place of this sum, in hexadecimal
}

// noSum is the manifest's last field while its checksum is computed.
var noSum = []byte(`"sum":"00000000"}`)

func sumOf(data []byte) []byte {
	return fmt.Appendf(nil, `"sum":"%08x"}`, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

func (m manifest) write(path string) error {
	m.Sum = "00000000"
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	head, whole := bytes.CutSuffix(data, noSum)
	if !whole {
		return errors.New("its checksum is not at the end")
	}
	return files.Write(path, append(head, sumOf(data)...))
}

// unreadable reports whether err is a failed read. The file may be intact.
func unreadable(err error) bool {
	_, failed := errors.AsType[*fs.PathError](err)
	return failed && !errors.Is(err, fs.ErrNotExist)
}

// readManifest reads a manifest. Any error except errNewerManifest and an unreadable one means that the manifest is
// damaged or missing.
func readManifest(path string) (manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return manifest{}, fmt.Errorf("its manifest is not JSON: %w", err)
	}
	if m.Version > 0 || m.Sum != "" {
		head := data[:max(0, len(data)-len(noSum))]
		if !bytes.Equal(data[len(head):], sumOf(append(bytes.Clone(head), noSum...))) {
			return manifest{}, errors.New("its manifest's checksum differs")
		}
	}
	switch {
	case m.Version > manifestVersion:
		return manifest{}, fmt.Errorf("%w: its manifest's version is %d, this program reads %d", errNewerManifest, m.Version, manifestVersion)
	case m.Round < 1 || m.File != checkpointName(m.Round)+".safetensors" || filepath.Base(path) != checkpointName(m.Round)+".json":
		return manifest{}, fmt.Errorf("its manifest names round %d and file %.80q", m.Round, m.File)
	}
	return m, nil
}

// event describes the checkpoint.
func (m manifest) event(dir string) *event.Checkpoint {
	return &event.Checkpoint{
		Round: m.Round, Path: filepath.Join(dir, m.File), Bytes: m.Bytes, WeightHash: m.WeightHash, Seconds: m.Seconds, Pause: m.Pause,
	}
}

// foreign returns how a checkpoint's owner differs from own, "" if it does not.
func (o owner) foreign(own owner) string {
	for _, f := range []struct{ what, has, want string }{{"run", o.Run, own.Run}, {"node", o.Node, own.Node}, {"model", o.Model, own.Model}} {
		if f.has != "" && f.want != "" && f.has != f.want {
			return fmt.Sprintf("it belongs to %s %s, not %s", f.what, f.has, f.want)
		}
	}
	return ""
}
