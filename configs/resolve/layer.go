package resolve

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
)

// Layer holds the values of one source. Values have their keys' types.
type Layer struct {
	Values  map[string]any
	Sources map[string]string // key -> its source in error messages
	Mixture []configs.TaskSpec
}

func (l *Layer) put(key configs.Key, text, source string) error {
	value, err := key.Parse(text)
	if err != nil {
		return configs.WithSource(err, source)
	}
	if l.Values == nil {
		l.Values, l.Sources = map[string]any{}, map[string]string{}
	}
	l.Values[key.Name], l.Sources[key.Name] = value, source
	return nil
}

// Text returns a string key's value.
func (l *Layer) Text(key string) string {
	s, _ := l.Values[key].(string)
	return s
}

// presetLayer returns a preset's values with one source for all of them.
func presetLayer(preset map[string]any, source string) (Layer, error) {
	values, err := configs.PresetValues(preset)
	if err != nil {
		return Layer{}, fmt.Errorf("%s: %w", source, err)
	}
	l := Layer{Values: values, Sources: map[string]string{}}
	for key := range values {
		l.Sources[key] = source
	}
	return l, nil
}

func fileLayer(file string) (Layer, error) {
	if file == "" {
		return Layer{}, nil
	}
	text, err := files.ReadBounded(file, configs.MaxDocument)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return Layer{}, &configs.Error{Problem: fmt.Sprintf("cannot read config file %q", file), Remedy: err.Error()}
	}
	document, err := configs.ParseDocument(file, text)
	if err != nil {
		return Layer{}, err
	}
	return Layer{Values: document.Values, Sources: document.Sources, Mixture: document.Mixture}, nil
}

// experimentLayers returns the values of the experiment preset: above the file if --config, --preset or SWARM_PRESET
// names the preset, below if the file does.
func experimentLayers(named string, flags, env, document Layer) (below, above Layer, err error) {
	source := "--config"
	if flag := flags.Text("preset"); flag != "" {
		if named != "" && named != flag {
			return below, above, &configs.Error{Key: "preset", Value: flag, Allowed: "the same name as --config " + named, Source: flags.Sources["preset"]}
		}
		named, source = flag, flags.Sources["preset"]
	}
	if named == "" {
		named, source = env.Text("preset"), env.Sources["preset"]
	}
	into := &above
	if named == "" {
		named, source, into = document.Text("preset"), document.Sources["preset"], &below
	}
	if named == "" {
		return below, above, nil
	}
	preset, err := configs.Experiment(named)
	if err != nil {
		return below, above, configs.WithSource(err, source)
	}
	if *into, err = presetLayer(preset, "preset "+named); err != nil {
		return below, above, err
	}
	into.Values["preset"], into.Sources["preset"] = named, source
	return below, above, nil
}

// environmentLayer reads SWARM_<KEY> and, unless ignoreRLSwarm is set, rl-swarm's variables. SWARM_<KEY> wins. An
// empty variable counts as not given.
func environmentLayer(environ []string, ignoreRLSwarm bool, known []string) (Layer, []string, error) {
	var l Layer
	var warnings []string
	variables := variables(environ)
	known = slices.Clone(known)
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

// experimentName returns the default name of an experiment: its preset, else its file's base name, else "default".
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

// EnvironmentNames lists the environment variables that set a key. It is nil if one of them can't be parsed.
func EnvironmentNames(environ []string) []string {
	layer, _, err := environmentLayer(environ, false, nil)
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Values(layer.Sources))
}
