package configs

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed experiments/*.yaml models/*.yaml studies/*.yaml tasks/*.yaml workloads/*.yaml gpus.yaml
var presetFiles embed.FS

// presetNames lists the presets of one folder in alphabetical order.
func presetNames(folder string) []string {
	entries, err := presetFiles.ReadDir(folder)
	if err != nil {
		return nil // unreachable: this file embeds the folders
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names) // ReadDir sorts names with their extensions
	return names
}

// decodePreset decodes an embedded file into out and refuses fields that out doesn't have.
func decodePreset(file string, out any) error {
	data, err := presetFiles.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read preset: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("preset %s: %w", file, err)
	}
	return nil
}

// Experiments lists the experiment presets: fixed splits first, then by own samples (I), most first. The paper's
// baseline is the first.
func Experiments() []string {
	listOnce.Do(func() {
		listed = presetNames("experiments")
		own, adaptive := map[string]int{}, map[string]bool{}
		for _, name := range listed {
			if values, err := Experiment(name); err == nil {
				own[name], _ = values["num_train_samples"].(int)
				_, adaptive[name] = values["split"]
			}
		}
		slices.SortStableFunc(listed, func(a, b string) int {
			switch {
			case adaptive[a] == adaptive[b]:
				return own[b] - own[a]
			case adaptive[a]:
				return 1
			}
			return -1
		})
	})
	return slices.Clone(listed)
}

// The presets are read once because the flags of every command list them.
var (
	listOnce sync.Once
	listed   []string
)

// Experiment returns a preset's values by Config key. An unknown name is an *Error.
func Experiment(name string) (map[string]any, error) {
	if names := presetNames("experiments"); !slices.Contains(names, name) {
		return nil, unknown("config", name, Experiments())
	}
	values := map[string]any{}
	if err := decodePreset(path.Join("experiments", name+".yaml"), &values); err != nil {
		return nil, err
	}
	return values, nil
}

// Models lists the model presets.
func Models() []string { return presetNames("models") }

// LoadModel returns the model preset with that name, ignoring case. A preset's Hugging Face id is accepted, too. An
// unknown name is an *Error.
func LoadModel(name string) (Model, error) {
	for _, known := range Models() {
		var m Model
		if err := decodePreset(path.Join("models", known+".yaml"), &m); err != nil {
			return Model{}, err
		}
		if strings.EqualFold(name, m.Name) || (strings.EqualFold(name, m.Weights) && m.Weights != Embedded) {
			return m, nil
		}
	}
	e := unknown("model", name, Models())
	e.Allowed += ", or a folder with config.json and *.safetensors"
	return Model{}, e
}

// TaskSets lists the task sets.
func TaskSets() []string { return presetNames("tasks") }

// TaskSet returns the mixture with that name. An unknown name is an *Error.
func TaskSet(name string) ([]TaskSpec, error) {
	if !slices.Contains(TaskSets(), name) {
		return nil, unknown("tasks.set", name, TaskSets())
	}
	var file struct {
		Tasks []TaskSpec `yaml:"tasks"`
	}
	if err := decodePreset(path.Join("tasks", name+".yaml"), &file); err != nil {
		return nil, err
	}
	return file.Tasks, nil
}

// taskNames returns the names of all tasks in the task sets, in alphabetical order. Callers must not change them.
var taskNames = sync.OnceValue(func() []string {
	var names []string
	for _, set := range TaskSets() {
		specs, err := TaskSet(set)
		if err != nil {
			continue // Validate reports the same error through tasks.set
		}
		for _, s := range specs {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
})

// GPUTable returns guide 4's table, most memory first. A GPU belongs to the first row whose MemoryBytes it reaches.
func GPUTable() ([]GPU, error) {
	var file struct {
		GPUs []GPU `yaml:"gpus"`
	}
	if err := decodePreset("gpus.yaml", &file); err != nil {
		return nil, err
	}
	return file.GPUs, nil
}
