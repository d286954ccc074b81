package recorded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

// bestTries is the number of attempts to copy the best weights of a running node, which may replace them meanwhile.
const bestTries = 5

// weightsFile is the file of weights in a folder that transformers opens.
const weightsFile = "model.safetensors"

// errReplaced reports that the weights differ from their manifest. A running node may replace its best weights at any
// time.
var errReplaced = errors.New("the SHA-256 of its best weights is not that of best.json")

// SaveBest writes the best weights of one of a run's nodes (validation_questions) as a folder. nodeName is the node's
// name or number; empty: the node with the best validation result. dtype is one of policy.DTypes.
func SaveBest(ctx context.Context, h plan.Host, run store.Run, nodeName, dir, dtype string) (Saved, error) {
	var names []string
	if nodeName != "" {
		name, err := NodeName(h.Home, run, nodeName)
		if err != nil {
			return Saved{}, err
		}
		names = []string{name}
	} else {
		var err error
		if names, err = NodeFolders(h.Home, run); err != nil {
			return Saved{}, err
		}
	}
	for try := 1; ; try++ {
		name, kept, err := bestOf(h.Home.Run(run.Run), names)
		if err != nil {
			try := "swarm up --validation-questions 36 for a run that keeps them, or swarm model save RUN NODE DIR"
			if !errors.Is(err, best.ErrNone) {
				try = "swarm model save --best RUN NODE DIR with another node"
			}
			return Saved{}, fail.Hint(fmt.Errorf("run %s: %w", run.Run, err), try)
		}
		saved, err := copyBest(ctx, h, run, name, kept, dir, dtype)
		if replaced := errors.Is(err, errReplaced) || errors.Is(err, fs.ErrNotExist); !replaced || try == bestTries {
			return saved, err
		}
	}
}

// bestOf returns the node with the best validation result among those that have kept weights, the first on a tie. It
// ignores nodes with other validation questions than the first one's. A damaged description is an error, because it may
// be that of the best node.
func bestOf(runDir string, names []string) (name string, kept best.Weights, err error) {
	err = best.ErrNone
	for _, n := range names {
		b, reading := best.Read(filepath.Join(runDir, n))
		switch {
		case reading != nil && (len(names) == 1 || !errors.Is(reading, best.ErrNone)):
			return n, b, fmt.Errorf("%s: %w", n, reading)
		case reading != nil:
			continue
		case name == "", b.Set == kept.Set && b.Judged.Better(kept.Judged):
			name, kept, err = n, b, nil
		}
	}
	return name, kept, err
}

// copyBest copies a node's best weights, and writes the tokenizer beside them. The node keeps them in float32: another
// dtype is made from the copy, whose hash was checked.
func copyBest(ctx context.Context, h plan.Host, run store.Run, name string, kept best.Weights, dir, dtype string) (Saved, error) {
	config, base, modelDir, err := nodeModel(h, run, name)
	if err != nil {
		return Saved{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Saved{}, fmt.Errorf("write %s: %w", dir, err)
	}
	from := filepath.Join(h.Home.Run(run.Run), name, kept.Folder)
	err = copyFile(ctx, from, dir, weightsFile, kept.SHA256) // first, so that nothing is written if they are missing
	if err == nil {
		err = copyFile(ctx, from, dir, "config.json", "")
	}
	if err != nil {
		return Saved{}, fmt.Errorf("%s of run %s: %w", name, run.Run, err)
	}
	written := policy.SaveResult{Bytes: kept.Bytes, SHA256: kept.SHA256}
	if dtype != policy.Float32 {
		engine, _, err := startWith(ctx, h, config, dir)
		if err != nil {
			return Saved{}, err
		}
		defer engine.Close()
		if written, err = engine.Save(ctx, policy.SaveParams{Path: dir, Format: "huggingface", DType: dtype}); err != nil {
			return Saved{}, fmt.Errorf("write %s: %w", dir, err)
		}
	}
	if err := model.SaveTokenizer(base, modelDir, dir); err != nil {
		return Saved{}, fmt.Errorf("write %s: %w", dir, err)
	}
	shape, err := model.Inspect(dir)
	if err != nil {
		return Saved{}, err
	}
	saved := Saved{
		Path: dir, Run: run.Run, Node: name, Rounds: kept.Round, Parameters: shape.Parameters, Bytes: written.Bytes, SHA256: written.SHA256,
		WeightHash: kept.WeightHash, ValidationPass: &kept.Pass,
	}
	for w := kept.Former; w != nil; w = w.Former {
		saved.Former = append(saved.Former, h.Home.Path("runs", run.Run, name, w.Folder))
	}
	saved.Files, err = fileNames(dir)
	return saved, err
}

// copyFile copies a file of one folder into another, whole or not at all. The error is errReplaced if its SHA-256
// differs from sum, unless sum is empty.
func copyFile(ctx context.Context, from, to, name, sum string) error {
	in, err := os.Open(filepath.Join(from, name))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(to, "."+name+"-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // once it has its name, there is nothing to remove
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, digest), contextReader{ctx, in})
	if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	if sum != "" && hex.EncodeToString(digest.Sum(nil)) != sum {
		return errReplaced
	}
	return os.Rename(out.Name(), filepath.Join(to, name))
}

// contextReader is a reader that fails once ctx has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
