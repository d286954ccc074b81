package rlswarm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFacts reads the files about the run as a whole: config.yaml, state/current_state.json and progress_*.json.
func (f *folder) readFacts(s *settings) error {
	text, err := f.read("config.yaml", maxSmallFile)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		f.report.problem("config.yaml", 0, "it is not YAML")
	}
	s.configured(config, "config.yaml")
	var state struct {
		CreatedAt *number        `json:"created_at"`
		Overrides map[string]any `json:"config_overrides"`
	}
	const stateFile = "state/current_state.json"
	if _, err := f.readJSON(stateFile, maxSmallFile, &state); err != nil {
		return err
	}
	s.configured(state.Overrides, stateFile)
	s.begin(moment(state.CreatedAt))
	names, err := f.list(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "progress_") && strings.HasSuffix(name, ".json") {
			if err := f.readProgress(s, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// configured adopts settings by the last part of their keys: training.num_generations, NUM_GENERATIONS.
func (s *settings) configured(values map[string]any, where string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if nested, ok := value.(map[string]any); ok {
			s.configured(nested, where)
			continue
		}
		name := strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
		if name == "max_round" {
			name = setRounds
		}
		switch name {
		case setTrainSamples, setTransplants, setGenerations, setRounds, setSeed:
			if v, ok := wholeNumber(value); ok {
				s.tell(name, v, where)
			}
		case "model_name":
			if text, ok := value.(string); ok && s.model == "" && len(text) <= 256 {
				s.model = text
			}
		}
	}
}

func wholeNumber(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		return int64(v), v == float64(int64(v))
	}
	return 0, false
}

// readProgress reads progress_NODE.json, which has one JSON object per line.
func (f *folder) readProgress(s *settings, name string) error {
	return f.lines(name, func(text []byte) error {
		var p struct {
			Timestamp   *number `json:"timestamp"`
			Event       string  `json:"event"`
			TotalRounds *number `json:"total_rounds"`
		}
		if err := decode(text, &p); err != nil {
			return err
		}
		switch p.Event {
		case "training_started":
			s.begin(moment(p.Timestamp))
		case "training_complete":
			total, err := p.TotalRounds.whole("total_rounds", 0, maxRound)
			if err != nil {
				return err
			}
			s.end(moment(p.Timestamp))
			s.tell(setRounds, int64(total), name)
		case "error":
			f.report.Errors++
		}
		return nil
	})
}

// readRollout counts the questions (I) and the completions per question (G) in the first readable rollouts, in case the
// configuration is missing.
func (f *folder) readRollout(s *settings) error {
	rounds, err := f.list("rollouts")
	if err != nil {
		return err
	}
	for _, round := range rounds[:min(len(rounds), 3)] {
		dir := path.Join("rollouts", round, "stage_0")
		names, err := f.list(dir)
		if err != nil {
			return err
		}
		for _, name := range names[:min(len(names), 3)] {
			text, err := f.read(path.Join(dir, name), maxRollout)
			if err != nil {
				return err
			}
			questions, generations, err := countRollouts(text)
			if err != nil {
				f.report.problem(path.Join(dir, name), 0, err.Error())
				continue
			}
			if questions > 0 && generations > 0 {
				s.tell(setTrainSamples, questions, path.Join(dir, name))
				s.tell(setGenerations, generations, path.Join(dir, name))
				return nil
			}
		}
	}
	return nil
}

// countRollouts counts the questions of a rollouts file and the completions per question, 0 if these differ.
func countRollouts(text []byte) (questions, generations int64, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return 0, 0, errors.New("it is empty")
	}
	var file struct {
		Rollouts map[string][]struct {
			Actions []json.RawMessage `json:"actions"`
		} `json:"rollouts"`
	}
	if err := decode(text, &file); err != nil {
		return 0, 0, fmt.Errorf("its rollouts can't be counted: %w", err)
	}
	for _, batch := range file.Rollouts {
		for _, tree := range batch {
			questions++
			switch n := int64(len(tree.Actions)); {
			case questions == 1:
				generations = n
			case n != generations:
				return questions, 0, nil
			}
		}
	}
	return questions, generations, nil
}
