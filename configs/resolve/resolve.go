// Package resolve builds an experiment's configuration from a preset, a file, the environment and flags. It is the
// only package that uses viper. Its caller passes the function that finds a model. Of this module it imports only
// configs and internal packages.
package resolve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"github.com/sapo-swarm/swarm/configs"
)

// Sources are a configuration's inputs besides its flags.
type Sources struct {
	Environ   []string // in os.Environ's form
	HasCUDA   bool     // decides the default model
	Known     []string // SWARM_… variables that are not part of the configuration
	FindModel func(name string) (configs.Model, error)
}

// Config resolves the configuration. Later sources win: defaults, the model's defaults, the YAML file, the experiment
// preset, the environment, flags. A preset that the file itself names ranks below the file, so that the file can
// override it. Config also returns warnings, one line each. A user's mistake is a *configs.Error.
func (s Sources) Config(f *Flags) (configs.Config, configs.Model, []string, error) {
	c, models, warnings, err := s.Swarm(f)
	if err != nil {
		return c, configs.Model{}, nil, err
	}
	return c, models[0], warnings, nil
}

// Swarm is like Config and returns all models of a mixed swarm, each once. Defaults come from the first model, except
// for the fields of configs.Member.
func (s Sources) Swarm(f *Flags) (configs.Config, []configs.Model, []string, error) {
	fail := func(err error) (configs.Config, []configs.Model, []string, error) {
		return configs.Config{}, nil, nil, err
	}
	flags, err := f.Layer()
	if err != nil {
		return fail(err)
	}
	env, warnings, err := environmentLayer(s.Environ, f.IgnoreRLSwarm, s.Known)
	if err != nil {
		return fail(err)
	}
	named, file, err := f.Sources()
	if err != nil {
		return fail(err)
	}
	document, err := fileLayer(file)
	if err != nil {
		return fail(err)
	}
	below, above, err := experimentLayers(named, flags, env, document)
	if err != nil {
		return fail(err)
	}
	given := []Layer{below, document, above, env, flags}
	paper, err := f.paperLayer(given)
	if err != nil {
		return fail(err)
	}
	given = append(given, paper)
	models, err := s.resolveModels(given)
	if err != nil {
		return fail(err)
	}
	model := models.list[0]
	modelLayer, err := presetLayer(model.Defaults, "model "+model.Name)
	if err != nil {
		return fail(err)
	}
	layers := append([]Layer{{Values: configs.Values(configs.Default())}, modelLayer}, given...)
	c, err := merge(layers)
	if err != nil {
		return fail(err)
	}
	if err := models.settle(&c, given); err != nil {
		return fail(err)
	}
	if c.Preset = above.Text("preset"); c.Preset == "" {
		c.Preset = document.Text("preset")
	}
	if c.Experiment == "" {
		c.Experiment = experimentName(above.Text("preset"), file)
	}
	if err := resolveTasks(&c, layers); err != nil {
		return fail(locate(err, layers))
	}
	if err := validate(c, models.list...); err != nil {
		return fail(locate(err, layers))
	}
	return c, models.list, warnings, nil
}

// Joined resolves a worker's configuration from another host's configuration, this host's model, and flags.
func (s Sources) Joined(f *Flags, base func() (Layer, error)) (configs.Config, configs.Model, error) {
	fail := func(err error) (configs.Config, configs.Model, error) { return configs.Config{}, configs.Model{}, err }
	flags, err := f.Layer()
	if err != nil {
		return fail(err)
	}
	theirs, err := base()
	if err != nil {
		return fail(err)
	}
	given := []Layer{theirs, flags}
	model, err := s.resolveModel(given)
	if err != nil {
		return fail(err)
	}
	layers := append([]Layer{{Values: configs.Values(configs.Default())}}, given...)
	c, err := merge(layers)
	if err != nil {
		return fail(err)
	}
	c.Model = model.Key()
	c.Tasks.Mixture = theirs.Mixture
	if err := absolute("tasks.file", &c.Tasks.File); err != nil {
		return fail(err)
	}
	if err := absolute("tasks.words", &c.Tasks.Words); err != nil {
		return fail(err)
	}
	if err := validate(c, model); err != nil {
		return fail(locate(err, layers))
	}
	return c, model, nil
}

// validate checks the merged configuration.
func validate(c configs.Config, models ...configs.Model) error {
	if err := configs.Validate(c); err != nil {
		return err
	}
	for _, m := range models {
		if err := configs.ValidateModel(c, m); err != nil {
			return err
		}
	}
	return nil
}

// merge stacks the layers in viper, the first lowest, and decodes the result. Values already have their keys' types,
// so that no conversion takes place.
func merge(layers []Layer) (configs.Config, error) {
	var c configs.Config
	v := viper.New()
	for _, l := range layers {
		if err := v.MergeConfigMap(nested(l.Values)); err != nil {
			return c, fmt.Errorf("merge configuration: %w", err)
		}
	}
	err := v.UnmarshalExact(&c, func(d *mapstructure.DecoderConfig) { d.WeaklyTypedInput = false })
	if err != nil {
		return c, fmt.Errorf("decode configuration: %w", err)
	}
	return c, nil
}

// nested turns keys with dots into nested maps.
func nested(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		into := out
		for {
			outer, inner, dotted := strings.Cut(key, ".")
			if !dotted {
				break
			}
			next, ok := into[outer].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[outer] = next
			}
			into, key = next, inner
		}
		into[key] = value
	}
	return out
}

// resolveModel finds the model in the highest layer that names one: a preset, or a folder in Hugging Face layout.
func (s Sources) resolveModel(layers []Layer) (configs.Model, error) {
	name, source := highest(layers, "model")
	if name == "" {
		name = "nano"
		if device, _ := highest(layers, "device"); s.HasCUDA && device != "cpu" {
			name = "gpt2"
		}
	}
	model, err := s.FindModel(name)
	return model, configs.WithSource(err, source)
}

// highest returns the text and source of a key in the highest layer that has it.
func highest(layers []Layer, key string) (text, source string) {
	for _, l := range layers {
		if t := l.Text(key); t != "" {
			text, source = t, l.Sources[key]
		}
	}
	return text, source
}

// resolveTasks chooses between tasks.set, tasks.file and tasks.mixture: the one in the highest layer wins. Within one
// layer a file or mixture wins over the set. Paths become absolute because nodes run in another folder.
func resolveTasks(c *configs.Config, layers []Layer) error {
	set, file, mixture := -1, -1, -1
	for i, l := range layers {
		if l.Text("tasks.set") != "" {
			set = i
		}
		if l.Text("tasks.file") != "" {
			file = i
		}
		if l.Mixture != nil {
			mixture = i
			c.Tasks.Mixture = l.Mixture
		}
	}
	switch {
	case file >= 0 && file == mixture: // Validate refuses it
	case mixture > file && mixture >= set:
		c.Tasks.File = ""
	case file >= 0 && file >= set:
		c.Tasks.Mixture = nil
	default:
		var err error
		if c.Tasks.Mixture, err = configs.TaskSet(c.Tasks.Set); err != nil {
			return err
		}
		c.Tasks.File = ""
	}
	if err := absolute("tasks.file", &c.Tasks.File); err != nil {
		return err
	}
	return absolute("tasks.words", &c.Tasks.Words)
}

func absolute(key string, path *string) error {
	if *path == "" {
		return nil
	}
	info, err := os.Stat(*path)
	if err != nil || info.IsDir() {
		return &configs.Error{Key: key, Value: *path, Allowed: "a readable file"}
	}
	if *path, err = filepath.Abs(*path); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// locate sets the source of an *configs.Error from the layers.
func locate(err error, layers []Layer) error {
	var e *configs.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, l := range layers {
		if source, ok := l.Sources[e.Key]; ok {
			e.Source = source
		}
	}
	return err
}
