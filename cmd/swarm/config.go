package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
)

// configFlags are the flags of every command that takes an experiment's configuration: one a key, and --config, --name, --set.
type configFlags struct {
	config []string // presets and YAML files
	sets   []string // key=value
	keys   []*keyFlag

	ignoreRLSwarm bool // rl-swarm's variables do not count
}

// keyFlag holds one key's text; it gets its type in resolveConfig, so that flags, files and variables share their error messages.
type keyFlag struct {
	key    configs.Key
	source string
	text   string
	given  bool
}

func (k *keyFlag) String() string { return k.text }

func (k *keyFlag) Set(text string) error {
	k.text, k.given = text, true
	return nil
}

func (k *keyFlag) Type() string {
	switch k.key.Kind {
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "float"
	default:
		return k.key.Kind.String()
	}
}

// add defines the flags.
func (f *configFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.config, "config", nil, "experiment `preset` ("+strings.Join(configs.Experiments(), ", ")+"), YAML file, or both")
	fs.StringArrayVar(&f.sets, "set", nil, "any `key=value` of the configuration, e.g. tasks.set=nano; may be repeated")
	f.addIgnoreRLSwarm(fs)
	for _, key := range configs.AllKeys() {
		if key.Name == configs.MixtureKey {
			continue
		}
		f.addKey(fs, key, key.FlagName(), key.Usage())
		if key.Name == "experiment" {
			f.addKey(fs, key, "name", "the same as --experiment: `name` of the experiment")
		}
	}
}

func (f *configFlags) addKey(fs *pflag.FlagSet, key configs.Key, name, usage string) {
	value := &keyFlag{key: key, source: "--" + name}
	f.keys = append(f.keys, value)
	flag := fs.VarPF(value, name, "", usage)
	if key.Kind == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
}

// takeArgs makes a command's arguments mean --config: a preset, a YAML file, or both. Beside a --config that names something
// else they are refused.
func (f *configFlags) takeArgs(args []string) error {
	if len(args) == 0 {
		return nil
	}
	args = strings.Split(strings.Join(args, ","), ",")
	if len(f.config) > 0 && !slices.Equal(slices.Sorted(slices.Values(f.config)), slices.Sorted(slices.Values(args))) {
		given := strings.Join(f.config, ",")
		try := "one of them"
		if both := append(slices.Clone(f.config), args...); len(both) == 2 && isFile(both[0]) != isFile(both[1]) {
			try = "--config " + strings.Join(both, ",") + " for both"
		}
		return fail.Usage(fmt.Errorf("the argument %q and --config %s are two configurations", strings.Join(args, " "), given), try)
	}
	f.config = args
	return nil
}

// gives tells whether the user gave a key, by a flag, a variable or a file of their own. It is asked of sources that have been resolved.
func (f *configFlags) gives(key string, environ []string) bool {
	flags, _ := f.layer()
	env, _, _ := environmentLayer(environ, f.ignoreRLSwarm)
	_, file, _ := f.sources()
	document, _ := fileLayer(file)
	return slices.ContainsFunc([]layer{flags, env, document}, func(l layer) bool { return l.values[key] != nil })
}

// resolveConfig puts the configuration together; later ones win: defaults, the model's defaults, the YAML file, the experiment preset,
// the environment, flags. A preset that the file itself names lies below the file: the file starts from it. environ is os.Environ's
// form; hasCUDA tells which model is the default. It also returns warnings, one line each. A user's mistake is a *configs.Error.
func resolveConfig(f *configFlags, environ []string, hasCUDA bool) (configs.Config, configs.Model, []string, error) {
	c, models, warnings, err := resolveSwarm(f, environ, hasCUDA)
	if err != nil {
		return c, configs.Model{}, nil, err
	}
	return c, models[0], warnings, nil
}

// resolveSwarm is resolveConfig with all models of a swarm of different ones, each once. Defaults are the first one's, but for what
// configs.Member has.
func resolveSwarm(f *configFlags, environ []string, hasCUDA bool) (configs.Config, []configs.Model, []string, error) {
	fail := func(err error) (configs.Config, []configs.Model, []string, error) {
		return configs.Config{}, nil, nil, err
	}
	flags, err := f.layer()
	if err != nil {
		return fail(err)
	}
	env, warnings, err := environmentLayer(environ, f.ignoreRLSwarm)
	if err != nil {
		return fail(err)
	}
	named, file, err := f.sources()
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
	given := []layer{below, document, above, env, flags}
	models, err := resolveModels(given, hasCUDA)
	if err != nil {
		return fail(err)
	}
	model := models.list[0]
	modelLayer, err := presetLayer(model.Defaults, "model "+model.Name)
	if err != nil {
		return fail(err)
	}
	layers := append([]layer{{values: configs.Values(configs.Default())}, modelLayer}, given...)
	c, err := merge(layers)
	if err != nil {
		return fail(err)
	}
	if err := models.settle(&c, given); err != nil {
		return fail(err)
	}
	if c.Preset = above.text("preset"); c.Preset == "" {
		c.Preset = document.text("preset")
	}
	if c.Experiment == "" {
		c.Experiment = experimentName(above.text("preset"), file)
	}
	if err := resolveTasks(&c, layers); err != nil {
		return fail(locate(err, layers))
	}
	if err := validate(c, models.list...); err != nil {
		return fail(locate(err, layers))
	}
	return c, models.list, warnings, nil
}

// resolveJoined puts together what a worker trains with: another host's configuration, what the model of this host needs, and flags.
func resolveJoined(f *configFlags, base func() (layer, error)) (configs.Config, configs.Model, error) {
	fail := func(err error) (configs.Config, configs.Model, error) { return configs.Config{}, configs.Model{}, err }
	flags, err := f.layer()
	if err != nil {
		return fail(err)
	}
	theirs, err := base()
	if err != nil {
		return fail(err)
	}
	given := []layer{theirs, flags}
	model, err := resolveModel(given, false)
	if err != nil {
		return fail(err)
	}
	layers := append([]layer{{values: configs.Values(configs.Default())}}, given...)
	c, err := merge(layers)
	if err != nil {
		return fail(err)
	}
	c.Model = modelKey(model)
	c.Tasks.Mixture = theirs.mixture
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

// validate checks what was put together.
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

// modelKey is the model as a configuration names it: a preset, or a folder.
func modelKey(model configs.Model) string {
	if model.Folder() {
		return model.Weights
	}
	return model.Name
}

// merge stacks the layers in viper, the first lowest, and decodes the result. Values already have their keys' types, so nothing is converted.
func merge(layers []layer) (configs.Config, error) {
	var c configs.Config
	v := viper.New()
	for _, l := range layers {
		if err := v.MergeConfigMap(nested(l.values)); err != nil {
			return c, fmt.Errorf("merge configuration: %w", err)
		}
	}
	err := v.UnmarshalExact(&c, func(d *mapstructure.DecoderConfig) { d.WeaklyTypedInput = false })
	if err != nil {
		return c, fmt.Errorf("decode configuration: %w", err)
	}
	return c, nil
}

// nested turns keys with dots into maps in maps.
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

// resolveModel finds the model the highest layer names: a preset, or a folder in Hugging Face layout.
func resolveModel(layers []layer, hasCUDA bool) (configs.Model, error) {
	name, source := highest(layers, "model")
	if name == "" {
		name = "nano"
		if device, _ := highest(layers, "device"); hasCUDA && device != "cpu" {
			name = "gpt2"
		}
	}
	model, err := findModel(name)
	return model, withSource(err, source)
}

// highest is the text of a key in the highest layer that has it, and where it was given.
func highest(layers []layer, key string) (text, source string) {
	for _, l := range layers {
		if t := l.text(key); t != "" {
			text, source = t, l.sources[key]
		}
	}
	return text, source
}

// resolveTasks decides where questions come from: of tasks.set, tasks.file and tasks.mixture the one given in the highest layer; in
// the same layer a file or mixture wins over the set. Paths become absolute, because nodes run elsewhere.
func resolveTasks(c *configs.Config, layers []layer) error {
	set, file, mixture := -1, -1, -1
	for i, l := range layers {
		if l.text("tasks.set") != "" {
			set = i
		}
		if l.text("tasks.file") != "" {
			file = i
		}
		if l.mixture != nil {
			mixture = i
			c.Tasks.Mixture = l.mixture
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
		return &configs.Error{Key: key, Value: *path, Allowed: "a file that can be read"}
	}
	if *path, err = filepath.Abs(*path); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// locate adds to an *configs.Error where its key's value came from.
func locate(err error, layers []layer) error {
	var e *configs.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, l := range layers {
		if source, ok := l.sources[e.Key]; ok {
			e.Source = source
		}
	}
	return err
}
