package configs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ownByStudy are the keys that a study sets by other means than set.
var ownByStudy = []string{"experiment", "preset", "seed", "rounds", "model", "models"}

// check returns an *Error for the first mistake in a study.
func (s Study) check() error {
	if strings.TrimSpace(s.Question) == "" {
		return s.refuse("question", "", "the question it answers")
	}
	if s.Measure != MeasurePass && s.Measure != MeasureReward {
		return s.refuse("measure", s.Measure, MeasurePass+", "+MeasureReward)
	}
	if s.Seeds < 1 || s.Seeds > 1000 {
		return s.refuse("seeds", strconv.Itoa(s.Seeds), "1 to 1000")
	}
	if s.Rounds < 1 {
		return s.refuse("rounds", strconv.Itoa(s.Rounds), "at least 1")
	}
	if s.Nodes < 0 || s.Nodes > 1000 {
		return s.refuse("nodes", strconv.Itoa(s.Nodes), "0 (as many as fit) to 1000")
	}
	if err := s.checkSet("set", s.Set); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		if err := s.checkModel(name, s.Models[name]); err != nil {
			return err
		}
	}
	if len(s.Experiments) == 0 {
		return s.refuse("experiments", "", "at least one")
	}
	seen := map[string]bool{}
	for _, e := range s.Experiments {
		if seen[e.Name] {
			return s.refuse("experiments", e.Name, "each name once")
		}
		seen[e.Name] = true
		if err := s.checkExperiment(e); err != nil {
			return err
		}
	}
	for _, seeds := range append([][]int64{s.Explored}, explored(s.Models)...) {
		for _, seed := range seeds {
			if seed < 0 || seed > MaxSeed {
				return s.refuse("explored", strconv.FormatInt(seed, 10), "seeds from 0 to "+strconv.FormatInt(MaxSeed, 10))
			}
		}
	}
	if _, err := s.Experiment(s.Baseline); err != nil {
		return err
	}
	for _, names := range s.Contrasts {
		for _, name := range names {
			if _, err := s.Experiment(name); err != nil {
				return err
			}
		}
		if names[0] == names[1] {
			return s.refuse("contrasts", names[0]+", "+names[1], "two different experiments")
		}
	}
	return nil
}

// explored returns the explored seeds of each model.
func explored(models map[string]StudyModel) (seeds [][]int64) {
	for _, m := range models {
		seeds = append(seeds, m.Explored)
	}
	return seeds
}

func (s Study) checkModel(name string, m StudyModel) error {
	if !slices.Contains(Models(), name) {
		return s.refuse("models", name, strings.Join(Models(), ", "))
	}
	if m.Seeds < 0 || m.Seeds > 1000 {
		return s.refuse("models."+name+".seeds", strconv.Itoa(m.Seeds), "1 to 1000")
	}
	if m.Rounds < 0 {
		return s.refuse("models."+name+".rounds", strconv.Itoa(m.Rounds), "at least 1")
	}
	return s.checkSet("models."+name+".set", m.Set)
}

func (s Study) checkExperiment(e StudyExperiment) error {
	if full := s.ExperimentName("", e.Name); !experimentName.MatchString(e.Name) || !experimentName.MatchString(full) {
		return s.refuse("experiments", e.Name, "a name of letters A-Z a-z, digits, . _ and -, starting with a letter or digit")
	}
	if _, err := Experiment(e.Config); err != nil {
		return err
	}
	if e.Nodes < 0 || e.Nodes > 1000 {
		return s.refuse(e.Name+".nodes", strconv.Itoa(e.Nodes), "0 (the study's) to 1000")
	}
	if e.LearningRateFactor < 0 || e.LearningRateFactor > 1e6 {
		return s.refuse(e.Name+".learning_rate_factor", fmt.Sprint(e.LearningRateFactor), "a number above 0")
	}
	trained := s.Trained(e)
	if len(e.Models) > 0 && len(trained) == 0 {
		return s.refuse(e.Name+".models", strings.Join(e.Models, ", "), "the model of a node that trains")
	}
	base := s.Base()
	if base != "" && !slices.Equal(e.Models, []string{base}) {
		return s.refuse(e.Name+".models", strings.Join(e.Models, ", "), "presets, or in every experiment the one folder that its nodes train: ["+base+"]")
	}
	if e.LearningRateFactor > 0 && len(e.Models) > 1 {
		return s.refuse(e.Name+".learning_rate_factor", fmt.Sprint(e.LearningRateFactor), "a factor for one model only, because each model has its own rate")
	}
	for _, model := range e.Models {
		if model == base || isFolder(model) && !slices.Contains(trained, model) {
			continue // it is looked for when a run is planned
		}
		if _, err := LoadModel(model); err != nil {
			return err
		}
	}
	return s.checkSet(e.Name+".set", e.Set)
}

// checkSet checks keys and their values' types. Resolving the configuration checks combinations.
func (s Study) checkSet(where string, set map[string]any) error {
	values, err := PresetValues(set)
	if err != nil {
		return err
	}
	for _, key := range ownByStudy {
		if _, ok := values[key]; ok {
			return s.refuse(where, key, "keys of an experiment except "+strings.Join(ownByStudy, ", "))
		}
	}
	return nil
}

func (s Study) refuse(key, value, allowed string) *Error {
	return &Error{Key: key, Value: value, Allowed: allowed, Source: "study " + s.Name}
}
