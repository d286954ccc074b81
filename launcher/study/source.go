package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/model"
)

// Source is one of a sweep's configurations before it is resolved.
type Source struct {
	Name   string         // in messages and tables: a preset, a file, or an experiment of a study
	Config string         // value of --config: a preset or file
	Values map[string]any // of a study, by key; they override the preset, and the user's flags override them
	Nodes  int            // of a study; 0: the user's
}

// sourcesOf returns the sources for a sweep's arguments.
func sourcesOf(names []string) []Source {
	var out []Source
	for _, name := range names {
		out = append(out, Source{Name: name, Config: name})
	}
	return out
}

// Sources returns the study's experiments with its model, restricted to only if it is not empty.
func (s *Study) Sources(only ...string) ([]Source, error) {
	settings, err := s.Settings(s.named, s.model)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range s.Experiments {
		all = append(all, e.Name)
	}
	for _, name := range only {
		if !slices.Contains(all, name) {
			return nil, &configs.Error{Problem: fmt.Sprintf("study %s has no experiment %.80q", s.Name, name), Remedy: "it has " + strings.Join(all, ", ")}
		}
	}
	var out []Source
	for i, e := range s.Experiments {
		if len(only) > 0 && !slices.Contains(only, e.Name) {
			continue
		}
		name, _ := settings[i]["experiment"].(string)
		out = append(out, Source{Name: name, Config: e.Config, Values: settings[i], Nodes: s.NodesOf(e)})
	}
	return out, nil
}

// flags returns the source's values as arguments of swarm up. The user's own flags come later and take precedence.
func (s Source) flags() []string {
	var args []string
	for _, key := range configs.AllKeys() {
		if value, ok := s.Values[key.Name]; ok {
			args = append(args, fmt.Sprintf("--%s=%v", key.FlagName(), value))
		}
	}
	if s.Nodes > 0 {
		args = append(args, "--nodes="+strconv.Itoa(s.Nodes))
	}
	return args
}

// OptionsOf returns the options for one configuration: the source's values for flags that the user did not set.
// nodesGiven means that the user set --nodes.
func OptionsOf(p plan.Options, s Source, nodesGiven bool) plan.Options {
	p.Resume = nil
	p.Config.Config = []string{s.Config}
	p.Config.Keys = slices.Clone(p.Config.Keys)
	for i, key := range p.Config.Keys {
		if value, ok := s.Values[key.Key.Name]; ok && !key.Given {
			p.Config.Keys[i] = &resolve.KeyFlag{Key: key.Key, Source: s.Name, Text: fmt.Sprint(value), Given: true}
		}
	}
	if s.Nodes > 0 && !nodesGiven {
		p.Nodes = strconv.Itoa(s.Nodes)
	}
	return p
}

// Study is a study with its model.
type Study struct {
	configs.Study
	model configs.Model
	named string // the value of --model; empty: the study's own model
}

// Find returns the study with that name, or reads the study in a user's file.
func Find(name string) (configs.Study, error) {
	if !resolve.IsFile(name) {
		study, err := configs.LoadStudy(name)
		var unknown *configs.Error
		if errors.As(err, &unknown) && unknown.Allowed != "" {
			unknown.Allowed += ", or a YAML file"
		}
		return study, configs.WithSource(err, "--study")
	}
	text, err := files.ReadBounded(name, configs.MaxDocument)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return configs.Study{}, &configs.Error{Problem: fmt.Sprintf("can't read study %q", name), Remedy: err.Error()}
	}
	return configs.ParseStudyFile(name, text)
}

// Load returns a study with its model from the flags. It rejects flags for settings that the study varies.
// nodesGiven means that the user set --nodes.
func Load(name string, flags *resolve.Flags, nodesGiven bool) (*Study, error) {
	study, err := Find(name)
	if err != nil {
		return nil, err
	}
	l, err := flags.Layer()
	if err != nil {
		return nil, err
	}
	for _, folder := range study.Folders() {
		if _, err := model.Find(folder); err != nil {
			return nil, &configs.Error{Problem: fmt.Sprintf("study %s needs a model in %s", name, folder),
				Remedy: "make it first: " + cmp.Or(strings.Join(strings.Fields(study.Prepare), " "), "swarm model save RUN NODE "+folder)}
		}
	}
	s := &Study{Study: study, named: l.Text("model")}
	switch {
	case l.Text("models") != "":
		return nil, &configs.Error{
			Problem: "a study sets the models of its nodes itself", Source: l.Sources["models"], Remedy: "--model NAME, or the study mixed-models",
		}
	case s.named == "":
		s.model, err = model.Find(cmp.Or(study.Base(), configs.NanoModel)) // any machine can train nano
	case study.FixesModels():
		return nil, &configs.Error{
			Problem: fmt.Sprintf("study %s takes no model: its experiments set theirs", name), Source: l.Sources["model"],
			Remedy: "remove it",
		}
	default:
		s.model, err = model.Find(s.named)
	}
	if err != nil {
		return nil, configs.WithSource(err, l.Sources["model"])
	}
	return s, s.checkFlags(l, nodesGiven)
}

// checkFlags rejects flags for settings that the study compares, because they would make its experiments equal, and for
// others that the study sets and that decide what is learned, because its experiments would not be what their names
// say.
func (s *Study) checkFlags(l resolve.Layer, nodesGiven bool) error {
	settings, err := s.Settings(s.named, s.model)
	if err != nil {
		return err
	}
	for _, key := range configs.Compared(settings) {
		if value, given := l.Values[key]; given {
			return &configs.Error{
				Key: key, Value: fmt.Sprint(value), Source: l.Sources[key], Allowed: "none: study " + s.Name + " compares values of it",
			}
		}
	}
	set, err := configs.PresetValues(s.With(s.named).Fixed())
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(set)) { // those of an experiment's own set are compared
		if value, given := l.Values[key]; given && configs.ClassOf(key) == configs.ClassExperiment {
			return &configs.Error{
				Key: key, Value: fmt.Sprint(value), Source: l.Sources[key],
				Allowed: fmt.Sprintf("none: study %s sets %v. For another value write a study of your own", s.Name, set[key]),
			}
		}
	}
	if nodesGiven && s.ComparesNodes() {
		return &configs.Error{Problem: "--nodes conflicts with study " + s.Name, Remedy: "remove it, because the study compares numbers of nodes"}
	}
	return nil
}

// Flags returns the flags that select the study on a command line.
func (s *Study) Flags() string {
	if s.named == "" {
		return "--study " + shell.Quote(s.Named())
	}
	return "--study " + shell.Quote(s.Named()) + " --model " + shell.Quote(s.named)
}

// otherwise returns an error if the run to continue or to count has settings other than the study's current ones.
// err is the result of Take.
func (i *Item) otherwise(r *coordinator.Resume, err error) error {
	if i.Values == nil {
		return nil
	}
	var refused *fail.UsageError
	if err == nil || errors.Is(err, coordinator.ErrFinished) {
		if r.Run == nil {
			return nil
		}
		// In general a resumed run may change its measurement settings. A run of a study must not.
		var measured []configs.Difference
		for _, d := range configs.Differences(r.Fixed, plan.Keeping(i.p.Asked(), r.Fixed)) {
			if d.Class == configs.ClassMeasure {
				measured = append(measured, d)
			}
		}
		if measured != nil {
			errors.As(r.Refuse(measured...), &refused)
		}
	} else {
		errors.As(err, &refused)
	}
	if refused == nil {
		return nil
	}
	return fail.Usage(fmt.Errorf("%s seed %d: %w", i.Name, i.seed(), refused.Err),
		"the original values as flags, or another --home for the new ones")

}

// SeedCount returns the study's number of seeds, with its model.
func (s *Study) SeedCount() int { return s.With(s.named).Seeds }
