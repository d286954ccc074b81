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

// presetNames lists one folder's presets in alphabetical order.
func presetNames(folder string) []string {
	entries, err := presetFiles.ReadDir(folder)
	if err != nil {
		return nil // the folders are named by this file and embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names) // the folder's order is that of names with their endings
	return names
}

// decodePreset reads an embedded file into out, refusing fields that out doesn't have.
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

// Experiments names the experiment presets: those of a fixed split first, and the one with the most own samples (I)
// before: the paper's baseline.
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

// The presets are read once: the flags of every command name them.
var (
	listOnce sync.Once
	listed   []string
)

// Experiment is a preset's values by Config key. An unknown name is an *Error.
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

// Models names the model presets.
func Models() []string { return presetNames("models") }

// LoadModel is the model preset of that name; a preset is also known by its Hugging Face id, with and without its
// owner, in capitals or not. An unknown name is an *Error.
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
	e.Allowed += ", or a folder that holds config.json and *.safetensors"
	return Model{}, e
}

// TaskSets names the task sets.
func TaskSets() []string { return presetNames("tasks") }

// TaskSet is the mixture of that name. An unknown name is an *Error.
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

// taskNames are the tasks that the task sets know, in alphabetical order.
func taskNames() []string {
	var names []string
	for _, set := range TaskSets() {
		specs, err := TaskSet(set)
		if err != nil {
			continue // Validate meets the same error through tasks.set
		}
		for _, s := range specs {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// GPUTable is guide 4's table, most memory first. A GPU belongs to the first row whose MemoryBytes it reaches.
func GPUTable() ([]GPU, error) {
	var file struct {
		GPUs []GPU `yaml:"gpus"`
	}
	if err := decodePreset("gpus.yaml", &file); err != nil {
		return nil, err
	}
	return file.GPUs, nil
}
