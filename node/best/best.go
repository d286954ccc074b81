// Package best keeps a node's best weights in the node's folder: best.json and a folder of weights. It owns these two
// names. Validation questions decide which weights are best. The package neither asks them nor trains.
package best

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// File is the name of the manifest in a node's folder. Pattern matches the names of folders of weights, complete or
// not.
const (
	File    = "best.json"
	Pattern = "best-*"

	version = 1 // of the manifest
)

var (
	// ErrNone reports that a node's folder has no best weights.
	ErrNone = errors.New("it has kept no best weights")
	// ErrNewer reports an intact manifest with a version that this program cannot read.
	ErrNewer = errors.New("a newer version of the program wrote " + File)
)

var errDamaged = errors.New(File + " is damaged")

// Owner identifies the run, node and model of the weights.
type Owner struct {
	Run   string `json:"run"`
	Node  string `json:"node"`
	Model string `json:"model"`
}

// Questions identifies the validation questions. Weights can be compared only if the same questions judged them.
type Questions struct {
	Set         string `json:"set"` // names the questions and how they were sampled
	Count       int    `json:"questions"`
	Generations int    `json:"generations"` // completions of each
}

// Saver is the part of the engine that writes weights.
type Saver interface {
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
}

// Weights is the content of best.json. It describes a node's best weights so far: a folder that transformers opens,
// without a tokenizer. best.json is written after that folder. A folder that it does not name does not count.
type Weights struct {
	Version int `json:"version"`
	Owner
	Questions
	Judged              // the result for which the weights were chosen
	Folder     string   `json:"folder"` // in the node's
	SHA256     string   `json:"sha256"` // of the folder's model.safetensors
	WeightHash string   `json:"weight_hash"`
	Bytes      int64    `json:"bytes"`
	All        []Judged `json:"judged"` // all weights that these questions judged, in the order of judging

	// Former describes the weights that other questions chose before these. It has a Former itself only if best.json
	// was damaged: then all weights in the node's folder became former ones, and their results are unknown.
	Former *Weights `json:"former,omitempty"`
}

// Judged is the validation result of a node's weights.
type Judged struct {
	Round  int     `json:"round"`  // rounds of training in the weights; 0: the initial weights
	Pass   float64 `json:"pass"`   // pass@1: completions with reward 1 / completions
	Reward float64 `json:"reward"` // mean of the completions
}

// Better reports whether j is better than other, by pass@1 and on a tie by reward.
func (j Judged) Better(other Judged) bool {
	return j.Pass > other.Pass || j.Pass == other.Pass && j.Reward > other.Reward
}

// NewJudged returns the validation result of an evaluation, which must have questions.
func NewJudged(eval event.Eval) Judged {
	j := Judged{Round: eval.Round}
	for _, q := range eval.Questions {
		j.Pass += float64(q.Correct)
		j.Reward += q.RewardSum
	}
	completions := float64(len(eval.Questions) * eval.Generations)
	j.Pass, j.Reward = j.Pass/completions, j.Reward/completions
	return j
}

// Read reads the description of the best weights in a node's folder. The error is ErrNone if there are none. The node
// may be running: then it may replace the weights at any time.
func Read(dir string) (Weights, error) {
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return Weights{}, ErrNone
	}
	if err != nil {
		return Weights{}, err
	}
	var b Weights
	if err := json.Unmarshal(data, &b); err != nil {
		return Weights{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if b.Version > version {
		return Weights{}, fmt.Errorf("%w: its version is %d, this program reads %d", ErrNewer, b.Version, version)
	}
	for w := &b; w != nil; w = w.Former {
		if w.Folder != Folder(w.Round) {
			return Weights{}, fmt.Errorf("%w: it names round %d and folder %.80q", errDamaged, w.Round, w.Folder)
		}
	}
	return b, nil
}

// Folder returns the name of the folder for weights after this number of rounds.
func Folder(round int) string { return fmt.Sprintf("best-%08d", round) }

// Keeper keeps a node's best weights in its folder. Its methods are called from one goroutine.
type Keeper struct {
	dir    string
	logger *slog.Logger
	now    Weights // Folder is empty if no weights were chosen by the current questions
}

// Open returns a Keeper that continues from the weights of previous processes. Weights of another owner, or chosen by
// other questions, become the Former of the next weights, and warn tells the user. Open removes nothing if it returns
// an error or best.json is damaged.
func Open(dir string, own Owner, questions Questions, logger *slog.Logger, warn func(string)) (*Keeper, error) {
	known, err := Read(dir)
	damaged := errors.Is(err, errDamaged)
	reason := "the validation questions have changed"
	switch {
	case damaged:
		reason = err.Error()
		if known, err = present(dir); err != nil {
			return nil, err
		}
	case err != nil && !errors.Is(err, ErrNone):
		return nil, err
	}
	var kept []Weights
	for w := &known; w != nil && w.Folder != ""; w = w.Former {
		err := complete(filepath.Join(dir, w.Folder))
		switch {
		case err == nil:
			kept = append(kept, *w)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		default:
			logger.Warn("best weights not used", "reason", err)
		}
	}
	b := &Keeper{dir: dir, logger: logger}
	if at := slices.IndexFunc(kept, func(w Weights) bool { return w.Set == questions.Set && w.Owner == own }); at >= 0 {
		b.now = kept[at]
		kept = slices.Delete(kept, at, at+1)
	} else if len(kept) > 0 {
		if !damaged {
			kept = kept[:1]
		}
		var folders []string
		for _, w := range kept {
			folders = append(folders, w.Folder)
		}
		warn(fmt.Sprintf("%s: new best weights will be chosen. The former ones stay in %s until the questions change again",
			reason, strings.Join(folders, ", ")))
	}
	b.now.Version, b.now.Owner, b.now.Questions, b.now.Former = version, own, questions, nil
	for _, w := range slices.Backward(kept) {
		w.Former, b.now.Former = b.now.Former, &w
	}
	if !damaged {
		b.clear(known)
	}
	return b, nil
}

// present describes all folders of weights in a folder whose best.json is damaged, the latest round first. Their
// results are unknown.
func present(dir string) (latest Weights, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		var round int
		if _, err := fmt.Sscanf(entry.Name(), "best-%d", &round); err == nil && entry.Name() == Folder(round) {
			former := latest
			latest = Weights{Judged: Judged{Round: round}, Folder: Folder(round), Former: &former}
		}
	}
	return latest, err
}

// complete returns an error if a folder of weights lacks a file. A save that was killed leaves such a folder.
func complete(dir string) error {
	for _, name := range []string{"config.json", "model.safetensors"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// clear removes all folders of weights that a best.json with this content does not name.
func (b *Keeper) clear(named Weights) {
	keep := map[string]bool{}
	for w := &named; w != nil; w = w.Former {
		keep[w.Folder] = true
	}
	folders, _ := filepath.Glob(filepath.Join(b.dir, Pattern))
	for _, path := range folders {
		if !keep[filepath.Base(path)] {
			_ = os.RemoveAll(path)
		}
	}
}

// Settle records that the node resumes with round first. It forgets the results of later weights, which are lost and
// will be judged again. The best weights stay, even if they are later ones.
func (b *Keeper) Settle(first int) {
	b.now.All = slices.DeleteFunc(b.now.All, func(j Judged) bool { return j.Round > first })
}

// Knows reports whether the weights after this number of rounds have been judged.
func (b *Keeper) Knows(rounds int) bool {
	return slices.ContainsFunc(b.now.All, func(j Judged) bool { return j.Round == rounds })
}

// Take records the result of the engine's weights, and keeps the weights if they are the best.
func (b *Keeper) Take(ctx context.Context, engine Saver, j Judged) error {
	next := b.now
	next.All = append(slices.Clone(b.now.All), j)
	if next.Folder == "" || j.Better(b.now.Judged) {
		next.Folder, next.Judged = Folder(j.Round), j
		result, err := engine.Save(ctx, policy.SaveParams{Path: filepath.Join(b.dir, next.Folder), Format: "huggingface", DType: "float32"})
		if err != nil {
			return fmt.Errorf("best weights after round %d: %w", j.Round, err)
		}
		next.SHA256, next.WeightHash, next.Bytes = result.SHA256, result.WeightHash, result.Bytes
		b.logger.Info("best weights kept", "round", j.Round, "validation_pass", j.Pass, "validation_reward", j.Reward)
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = files.Write(filepath.Join(b.dir, File), data)
	}
	if err != nil {
		return fmt.Errorf("best weights after round %d: %w", j.Round, err)
	}
	b.now = next
	b.clear(next)
	return nil
}
