package resolve

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/spf13/pflag"
)

// Flags are the flags of every command that accepts an experiment's configuration: one per key, and --config, --name,
// --set.
type Flags struct {
	Config []string // presets and YAML files
	Sets   []string // key=value
	Keys   []*KeyFlag

	IgnoreRLSwarm bool // ignore rl-swarm's variables
	Paper         bool // use the paper's values for the algorithm's keys
}

// KeyFlag holds one key's text. Layer parses it after all flags are read, so that flags, files and variables share
// their error messages.
type KeyFlag struct {
	Key    configs.Key
	Source string
	Text   string
	Given  bool
}

func (k *KeyFlag) String() string { return k.Text }

func (k *KeyFlag) Set(text string) error {
	k.Text, k.Given = text, true
	return nil
}

// DefaultText returns the key's default for the flag's help.
func (k *KeyFlag) DefaultText() string { return k.Key.DefaultText() }

func (k *KeyFlag) Type() string {
	switch k.Key.Kind {
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "float"
	default:
		return k.Key.Kind.String()
	}
}

// AddFlags defines the flags.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.Config, "config", nil, "experiment `preset` ("+strings.Join(configs.Experiments(), ", ")+"), YAML file, or both")
	fs.StringArrayVar(&f.Sets, "set", nil, "any `key=value` of the configuration, e.g. tasks.set=nano; may be repeated")
	fs.BoolVar(&f.Paper, PaperFlag, false, "train as published in the paper: no correction or filter of others' rollouts, all keys of the algorithm at the paper's values")
	f.AddIgnoreRLSwarm(fs)
	for _, key := range configs.AllKeys() {
		if key.Name == configs.MixtureKey {
			continue
		}
		f.AddKey(fs, key, key.FlagName(), key.Usage())
		if key.Name == "experiment" {
			f.AddKey(fs, key, "name", "the same as --experiment: `name` of the experiment")
		}
	}
}

// AddKey defines the flag of a key.
func (f *Flags) AddKey(fs *pflag.FlagSet, key configs.Key, name, usage string) {
	value := &KeyFlag{Key: key, Source: "--" + name}
	f.Keys = append(f.Keys, value)
	flag := fs.VarPF(value, name, "", usage)
	if key.Kind == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
}

// TakeArgs treats a command's arguments as values of --config: a preset, a YAML file, or both. It refuses them if
// --config names something else.
func (f *Flags) TakeArgs(args []string) error {
	if len(args) == 0 {
		return nil
	}
	args = strings.Split(strings.Join(args, ","), ",")
	if len(f.Config) > 0 && !slices.Equal(slices.Sorted(slices.Values(f.Config)), slices.Sorted(slices.Values(args))) {
		given := strings.Join(f.Config, ",")
		try := "one of them"
		if both := append(slices.Clone(f.Config), args...); len(both) == 2 && IsFile(both[0]) != IsFile(both[1]) {
			try = "--config " + strings.Join(both, ",") + " for both"
		}
		return fail.Usage(fmt.Errorf("the argument %q and --config %s name two configurations", strings.Join(args, " "), given), try)
	}
	f.Config = args
	return nil
}

// Gives tells whether the user set a key by a flag, a variable or a YAML file. Call it after the sources were
// resolved without error.
func (f *Flags) Gives(key string, environ []string) bool {
	flags, _ := f.Layer()
	env, _, _ := environmentLayer(environ, f.IgnoreRLSwarm, nil)
	_, file, _ := f.Sources()
	document, _ := fileLayer(file)
	return slices.ContainsFunc([]Layer{flags, env, document}, func(l Layer) bool { return l.Values[key] != nil })
}

// neverEmpty are the keys whose flags refuse an empty value, as an unset shell variable gives. It would mean the
// default.
var neverEmpty = []string{"experiment", "preset", "model", "device", "precision"}

// Layer returns the flags' values. --set accepts any key and wins over the key's own flag.
func (f *Flags) Layer() (Layer, error) {
	var l Layer
	for _, k := range f.Keys {
		if k.Given {
			if k.Text == "" && slices.Contains(neverEmpty, k.Key.Name) {
				return l, &configs.Error{Key: strings.TrimPrefix(k.Source, "--"), Allowed: "a value that is not empty", Source: k.Source}
			}
			if err := l.put(k.Key, k.Text, k.Source); err != nil {
				return l, err
			}
		}
	}
	for _, set := range f.Sets {
		name, text, ok := strings.Cut(set, "=")
		if !ok {
			return l, &configs.Error{Key: "set", Value: set, Allowed: "key=value", Source: "--set"}
		}
		key, err := configs.FindKey(strings.TrimSpace(name))
		if err != nil {
			return l, configs.WithSource(err, "--set")
		}
		if err := l.put(key, text, "--set"); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Sources splits the values of --config into a preset and a YAML file. Either may be empty.
func (f *Flags) Sources() (preset, file string, err error) {
	for _, name := range f.Config {
		into, what := &preset, "preset"
		if IsFile(name) {
			into, what = &file, "YAML file"
		} else if _, err := configs.Experiment(name); err != nil {
			var e *configs.Error
			if errors.As(err, &e) {
				e.Allowed += ", or a YAML file"
			}
			return "", "", err
		}
		if *into != "" && *into != name {
			return "", "", &configs.Error{Key: "config", Value: name, Allowed: "one " + what + " (" + *into + " is another)", Source: "--config"}
		}
		*into = name
	}
	return preset, file, nil
}

// IsFile distinguishes a file's path from a preset's name.
func IsFile(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))
	return extension == ".yaml" || extension == ".yml" || strings.ContainsRune(name, filepath.Separator)
}

// Given returns the first flag that was given, "" if none was. Flags of the keys in except don't count.
func (f *Flags) Given(except ...string) string {
	switch {
	case len(f.Config) > 0:
		return "--config"
	case len(f.Sets) > 0:
		return "--set"
	}
	if f.Paper {
		return "--" + PaperFlag
	}
	for _, k := range f.Keys {
		if k.Given && !slices.Contains(except, k.Key.Name) {
			return k.Source
		}
	}
	return ""
}
