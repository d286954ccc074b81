package configs

import (
	"fmt"
	"reflect"
	"strings"
)

// sharedExperiment identifies an experiment of another study.
type sharedExperiment struct {
	study Study
	name  string
}

// other finds the study and the experiment that As names.
func (e StudyExperiment) other() (study, experiment string, ok bool) {
	for _, name := range Studies() {
		if rest, found := strings.CutPrefix(e.As, name+"-"); found && len(name) > len(study) {
			study, experiment, ok = name, rest, true
		}
	}
	return study, experiment, ok
}

// adopt fills in the experiments that belong to other studies. Each must be the other study's own, and that study
// must run it with nano as this study would.
func (s *Study) adopt() error {
	s.shared = map[string]sharedExperiment{}
	for i, e := range s.Experiments {
		if e.As == "" {
			continue
		}
		if !reflect.DeepEqual(e, StudyExperiment{Name: e.Name, As: e.As}) {
			return s.refuse(e.Name+".as", e.As, "only name beside it, because the other keys come from that experiment")
		}
		study, name, ok := e.other()
		if !ok || study == s.Name {
			return s.refuse(e.Name+".as", e.As, "an experiment of another study, such as paper-4loc4ext")
		}
		other, err := LoadStudy(study)
		if err != nil {
			return err
		}
		adopted, err := other.Experiment(name)
		if err != nil {
			return err
		}
		if adopted.As != "" {
			return s.refuse(e.Name+".as", e.As, adopted.As+", which it refers to itself")
		}
		adopted.Name, adopted.As = e.Name, e.As
		if nodes := other.NodesOf(adopted); nodes != s.Nodes {
			adopted.Nodes = nodes
		}
		s.Experiments[i], s.shared[e.Name] = adopted, sharedExperiment{other, name}
		if !s.alike("", other) {
			return s.refuse(e.Name+".as", e.As, fmt.Sprintf("an experiment of a study with the same rounds, paper and set (%s has rounds %d, paper %v and set %v)", study,
				other.Rounds, other.Paper, strings.TrimPrefix(fmt.Sprint(other.Set), "map")))
		}
	}
	return nil
}

// alike tells whether two studies run an experiment with the same rounds and keys, for a model. A study without Paper
// may set the paper's values itself, or have them by default.
func (s Study) alike(model string, other Study) bool {
	ours, theirs := s.With(model), other.With(model)
	return ours.Rounds == theirs.Rounds && reflect.DeepEqual(ours.pinned(), theirs.pinned())
}

// pinned returns Fixed, and the defaults of the keys of PaperValues that it lacks.
func (s Study) pinned() map[string]any {
	values := map[string]any{}
	defaults := Values(Default())
	for key := range PaperValues() {
		values[key] = defaults[key]
	}
	values, err := stack(values, s.Fixed())
	if err != nil { // check has refused it
		return s.Fixed()
	}
	return values
}

// recordedAs returns the study and the experiment that an experiment of s is recorded under, if it belongs to another
// study.
func (s Study) recordedAs(model, experiment string) (other Study, name string, ok bool) {
	x, ok := s.shared[experiment]
	return x.study, x.name, ok && s.alike(model, x.study)
}
