package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// swarmModels are the models that a configuration's layers name.
type swarmModels struct {
	list    []configs.Model // each once, the first node's first
	text    string          // of the key models; empty: one model for all
	members []configs.Member
}

// resolveModels finds what the highest layer names that has model or models. Of one layer that has both, models counts, and model must be its first.
func resolveModels(layers []layer, hasCUDA bool) (swarmModels, error) {
	one, many := -1, -1
	for i, l := range layers {
		if l.text("model") != "" {
			one = i
		}
		if l.text("models") != "" {
			many = i
		}
	}
	if many < 0 || many < one {
		model, err := resolveModel(layers, hasCUDA)
		return swarmModels{list: []configs.Model{model}}, err
	}
	text, source := layers[many].text("models"), layers[many].sources["models"]
	members, err := configs.ParseMembers(text)
	if err != nil {
		return swarmModels{}, withSource(err, source)
	}
	out := swarmModels{members: members}
	for i := range members {
		m, err := findModel(members[i].Model)
		if err != nil {
			return swarmModels{}, withSource(err, source)
		}
		if members[i].Model = modelKey(m); !slices.ContainsFunc(out.list, func(o configs.Model) bool { return modelKey(o) == modelKey(m) }) {
			out.list = append(out.list, m)
		}
	}
	out.text = configs.MembersText(text, members)
	if one < many {
		return out, nil
	}
	named := layers[many].text("model")
	if m, err := findModel(named); err != nil || modelKey(m) != members[0].Model {
		return swarmModels{}, &configs.Error{
			Key: "model", Value: named, Source: layers[many].sources["model"],
			Allowed: "one of model and models, or as model the first of models, " + members[0].Model,
		}
	}
	return out, nil
}

// settle puts the models into a configuration: what their nodes have of their own is what was given for all, else each model's default.
func (s swarmModels) settle(c *configs.Config, given []layer) error {
	c.Model, c.Models, c.Members = modelKey(s.list[0]), s.text, s.members
	for i := range c.Members {
		m := &c.Members[i]
		at := slices.IndexFunc(s.list, func(o configs.Model) bool { return modelKey(o) == m.Model })
		own, err := presetLayer(s.list[at].Defaults, "model "+s.list[at].Name)
		if err != nil {
			return err
		}
		merged, err := merge(append([]layer{{values: configs.Values(configs.Default())}, own}, given...))
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Model, err)
		}
		m.LearningRate, m.MicroBatch = merged.LearningRate, merged.MicroBatch
	}
	return nil
}

// companions are the models beside the first, with what was measured of each.
func companions(p planned, measured func(planned) (*fit.Measured, error)) (list []fit.Companion, err error) {
	for _, m := range p.all()[1:] {
		own := p
		own.model, own.config.Model = m, modelKey(m)
		c := fit.Companion{Model: m}
		if c.Measured, err = measured(own); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// modelsOf are the models of a configuration that is resolved, each once, the first node's first.
func modelsOf(c configs.Config) ([]configs.Model, error) {
	keys := []string{c.Model}
	for _, m := range c.Members {
		if !slices.Contains(keys, m.Model) {
			keys = append(keys, m.Model)
		}
	}
	var list []configs.Model
	for _, key := range keys {
		m, err := findModel(key)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// of is the model of a configuration's key.
func (p planned) of(key string) configs.Model {
	for _, m := range p.models {
		if modelKey(m) == key {
			return m
		}
	}
	return p.model
}

// all are the models of the swarm, each once, the first node's first.
func (p planned) all() []configs.Model {
	if len(p.models) == 0 {
		return []configs.Model{p.model}
	}
	return p.models
}

// unlike warns of models whose tokens are not of the same text: limits in tokens, and with them the held-out questions, may then differ.
func (p planned) unlike() []string {
	var other []string
	for _, m := range p.all() {
		if m.Tokenizer != p.model.Tokenizer {
			other = append(other, m.Name)
		}
	}
	if other == nil || p.trainer.command != "" {
		return nil
	}
	return []string{fmt.Sprintf("the tokens of %s are not those of %s: limits in tokens mean other lengths of text, and held-out rewards compare only "+
		"where the questions are the same", strings.Join(other, " and "), p.model.Name)}
}

// nodeIndex is a node's index among its host's, by its name; 0 for a name of another kind, of a swarm with one model.
func nodeIndex(name string) int {
	index, err := strconv.Atoi(strings.TrimPrefix(name, "node_"))
	if err != nil || index < 0 || fit.NodeName(index) != name {
		return 0
	}
	return index
}

// trains names what the nodes train.
func (p planned) trains() string {
	if p.config.Models != "" {
		return p.config.Models
	}
	return p.model.Name
}

// ensureModels brings the weights of all models into place, and returns their folders by the models' keys.
func ensureModels(ctx context.Context, g *globals, p planned, yes bool) (map[string]string, error) {
	dirs := map[string]string{}
	for _, m := range p.all() {
		dir, err := ensureModel(ctx, g, m, yes)
		if err != nil {
			return nil, err
		}
		dirs[modelKey(m)] = dir
	}
	return dirs, nil
}

// inputsOf are the inputHashes of a swarm: the first model's weights as "model", and those of each other under its name.
func inputsOf(ctx context.Context, p planned, modelDirs map[string]string) (map[string]string, error) {
	hashes, err := inputHashes(ctx, modelDirs[modelKey(p.model)], p.config.Tasks)
	if err != nil {
		return nil, err
	}
	for _, m := range p.all()[1:] {
		own, err := inputHashes(ctx, modelDirs[modelKey(m)], configs.Tasks{})
		if err != nil {
			return nil, err
		}
		hashes[modelInput(p, m)] = own["model"]
	}
	return hashes, nil
}
