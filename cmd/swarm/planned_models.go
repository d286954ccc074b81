package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// companions are the models beside the first, with what was measured of each.
func companions(p planned, measured func(planned) (*fit.Measured, error)) (list []fit.Companion, err error) {
	for _, m := range p.all()[1:] {
		own := p
		own.model, own.config.Model = m, m.Key()
		c := fit.Companion{Model: m}
		if c.Measured, err = measured(own); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// of is the model of a configuration's key.
func (p planned) of(key string) configs.Model {
	for _, m := range p.models {
		if m.Key() == key {
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
		dirs[m.Key()] = dir
	}
	return dirs, nil
}

// inputsOf are the inputHashes of a swarm: the first model's weights as "model", and those of each other under its name.
func inputsOf(ctx context.Context, p planned, modelDirs map[string]string) (map[string]string, error) {
	hashes, err := inputHashes(ctx, modelDirs[p.model.Key()], p.config.Tasks)
	if err != nil {
		return nil, err
	}
	for _, m := range p.all()[1:] {
		own, err := inputHashes(ctx, modelDirs[m.Key()], configs.Tasks{})
		if err != nil {
			return nil, err
		}
		hashes[modelInput(p, m)] = own["model"]
	}
	return hashes, nil
}
