package plan

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/model"
)

// Former finds the weights with which a run began, by their recorded hashes, if this program embeds others under
// the same name. An earlier program may have left them under home. Former replaces the entries in modelDirs and
// inputs and returns the models' names.
func Former(ctx context.Context, home layout.Home, p Planned, modelDirs, inputs, began map[string]string) ([]string, error) {
	var found []string
	for _, m := range p.All() {
		input := modelInput(p, m)
		was := began[input]
		if m.Weights != model.Embedded || was == "" || was == inputs[input] {
			continue
		}
		dir, err := formerFolder(ctx, home, m, was)
		if err != nil {
			return nil, err
		}
		if dir != "" {
			modelDirs[m.Key()], inputs[input] = dir, was
			found = append(found, m.Name)
		}
	}
	return found, nil
}

// formerFolder returns the folder under home with the complete weights of an embedded model that have this hash, or
// "".
func formerFolder(ctx context.Context, home layout.Home, m configs.Model, hash string) (string, error) {
	folders, err := filepath.Glob(filepath.Join(escapeGlob(string(home)), "models", m.Name+"-*"))
	if err != nil {
		return "", fmt.Errorf("weights of %s under %s: %w", m.Name, home, err)
	}
	for _, dir := range folders {
		hashes, err := InputHashes(ctx, dir, configs.Tasks{})
		if err == nil && hashes["model"] == hash {
			_, err = model.Inspect(dir)
			if err == nil {
				return dir, nil
			}
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
	return "", nil
}

// escapeGlob escapes a path for use in a glob pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// FormerFiles returns the remedy for a run whose inputs have changed.
func FormerFiles(p Planned, home layout.Home, input string) string {
	for _, m := range p.All() {
		if m.Weights == model.Embedded && modelInput(p, m) == input {
			return "the original files, " + home.Path("models", m.Name+"-*") + " of the program version that began the run"
		}
	}
	return "the original files"
}

// modelInput returns the key of a model's initial weights among a run's inputs.
func modelInput(p Planned, m configs.Model) string {
	if m.Key() == p.Model.Key() {
		return "model"
	}
	return "model " + m.Key()
}
