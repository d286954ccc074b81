package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/node/policy"
)

// layer is what one source says. Values have their keys' types.
type layer struct {
	values  map[string]any
	sources map[string]string // key -> what an error names
	mixture []configs.TaskSpec
}

func (l *layer) put(key configs.Key, text, source string) error {
	value, err := key.Parse(text)
	if err != nil {
		return withSource(err, source)
	}
	if l.values == nil {
		l.values, l.sources = map[string]any{}, map[string]string{}
	}
	l.values[key.Name], l.sources[key.Name] = value, source
	return nil
}

func (l *layer) text(key string) string {
	s, _ := l.values[key].(string)
	return s
}

// presetLayer is a preset's values with one source for all of them.
func presetLayer(preset map[string]any, source string) (layer, error) {
	values, err := configs.PresetValues(preset)
	if err != nil {
		return layer{}, fmt.Errorf("%s: %w", source, err)
	}
	l := layer{values: values, sources: map[string]string{}}
	for key := range values {
		l.sources[key] = source
	}
	return l, nil
}

// withSource names the place in an *configs.Error that has none.
func withSource(err error, source string) error {
	var e *configs.Error
	if errors.As(err, &e) && e.Source == "" {
		e.Source = source
	}
	return err
}

// layer is what the flags say; --set, which can name any key, wins over a key's own flag.
func (f *configFlags) layer() (layer, error) {
	var l layer
	for _, k := range f.keys {
		if k.given {
			if err := l.put(k.key, k.text, k.source); err != nil {
				return l, err
			}
		}
	}
	for _, set := range f.sets {
		name, text, ok := strings.Cut(set, "=")
		if !ok {
			return l, &configs.Error{Key: "set", Value: set, Allowed: "key=value", Source: "--set"}
		}
		key, err := configs.FindKey(strings.TrimSpace(name))
		if err != nil {
			return l, withSource(err, "--set")
		}
		if err := l.put(key, text, "--set"); err != nil {
			return l, err
		}
	}
	return l, nil
}

// sources parts what --config names into a preset and a YAML file, either of which may be empty.
func (f *configFlags) sources() (preset, file string, err error) {
	for _, name := range f.config {
		into, what := &preset, "preset"
		if isFile(name) {
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

// isFile tells a file's path from a preset's name.
func isFile(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))
	return extension == ".yaml" || extension == ".yml" || strings.ContainsRune(name, filepath.Separator)
}

func fileLayer(file string) (layer, error) {
	if file == "" {
		return layer{}, nil
	}
	text, err := readBounded(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return layer{}, &configs.Error{Problem: fmt.Sprintf("can't read config file %q", file), Remedy: err.Error()}
	}
	document, err := configs.ParseDocument(file, text)
	if err != nil {
		return layer{}, err
	}
	return layer{values: document.Values, sources: document.Sources, mixture: document.Mixture}, nil
}

// readBounded reads at most one byte more than a configuration file may have: what comes after it is refused by the parser anyway.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, configs.MaxDocument+1))
	return text, errors.Join(err, f.Close())
}

// experimentLayers are the values of the experiment preset: above the file when --config, --preset or SWARM_PRESET names it,
// below when the file does.
func experimentLayers(named string, flags, env, document layer) (below, above layer, err error) {
	source := "--config"
	if flag := flags.text("preset"); flag != "" {
		if named != "" && named != flag {
			return below, above, &configs.Error{Key: "preset", Value: flag, Allowed: "the same as --config " + named, Source: flags.sources["preset"]}
		}
		named, source = flag, flags.sources["preset"]
	}
	if named == "" {
		named, source = env.text("preset"), env.sources["preset"]
	}
	into := &above
	if named == "" {
		named, source, into = document.text("preset"), document.sources["preset"], &below
	}
	if named == "" {
		return below, above, nil
	}
	preset, err := configs.Experiment(named)
	if err != nil {
		return below, above, withSource(err, source)
	}
	if *into, err = presetLayer(preset, "preset "+named); err != nil {
		return below, above, err
	}
	into.values["preset"], into.sources["preset"] = named, source
	return below, above, nil
}

// environmentLayer reads SWARM_<KEY> and, unless they are to be ignored, rl-swarm's names, of which SWARM_<KEY> wins. An empty
// variable counts as not given.
func environmentLayer(environ []string, ignoreRLSwarm bool) (layer, []string, error) {
	var l layer
	var warnings []string
	variables := variables(environ)
	// Variables of the program that aren't configuration.
	known := []string{"SWARM_HOME", "SWARM_PYTHON", priceVariable, joinVariable, gpu.LibraryVariable, policy.HostVariable}
	for _, key := range configs.AllKeys() {
		known = append(known, key.EnvironmentName())
		alias := rlSwarmVariable(key.Name, variables)
		if ignoreRLSwarm {
			alias = ""
		}
		for _, name := range []string{alias, key.EnvironmentName()} {
			if text, ok := variables[name]; ok {
				if err := l.put(key, text, name); err != nil {
					return l, nil, err
				}
			}
		}
	}
	for name := range variables {
		if strings.HasPrefix(name, "SWARM_") && !slices.Contains(known, name) {
			warnings = append(warnings, "unknown environment variable "+name+" is ignored")
		}
	}
	slices.Sort(warnings)
	return l, warnings, nil
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// experimentName is what an experiment without a name is called: its preset, else its file's base name, else "default".
func experimentName(preset, file string) string {
	if preset != "" {
		return preset
	}
	base := filepath.Base(file)
	name := strings.TrimLeft(notInName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "._-")
	if file == "" || name == "" {
		return "default"
	}
	return name[:min(len(name), 64)]
}
