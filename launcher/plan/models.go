package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// companions returns the swarm's other models, each with its measured footprint.
func companions(p Planned, measured func(Planned) (*fit.Measured, error)) (list []fit.Companion, err error) {
	for _, m := range p.All()[1:] {
		own := p
		own.Model, own.Config.Model = m, m.Key()
		c := fit.Companion{Model: m}
		if c.Measured, err = measured(own); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Of returns the model with that configuration key.
func (p Planned) Of(key string) configs.Model {
	for _, m := range p.Models {
		if m.Key() == key {
			return m
		}
	}
	return p.Model
}

// All returns the models of the swarm, each once, starting with the first node's.
func (p Planned) All() []configs.Model {
	if len(p.Models) == 0 {
		return []configs.Model{p.Model}
	}
	return p.Models
}

// unlike warns about models with different tokenizers: a limit in tokens allows different lengths of text, so the
// held-out questions may differ.
func (p Planned) unlike() []string {
	var other []string
	for _, m := range p.All() {
		if m.Tokenizer != p.Model.Tokenizer {
			other = append(other, m.Name)
		}
	}
	if other == nil || p.Trainer.Command != "" {
		return nil
	}
	return []string{fmt.Sprintf("%s and %s have different tokenizers: limits in tokens mean different text lengths, and held-out rewards are comparable only "+
		"if the questions are the same", strings.Join(other, " and "), p.Model.Name)}
}

// Trains returns the names of the models that the nodes train.
func (p Planned) Trains() string {
	if p.Config.Models != "" {
		return p.Config.Models
	}
	return p.Model.Name
}

// InputsOf returns the InputHashes of a swarm: the first model's weights as "model", and each other model's under
// its name.
func InputsOf(ctx context.Context, p Planned, modelDirs map[string]string) (map[string]string, error) {
	hashes, err := InputHashes(ctx, modelDirs[p.Model.Key()], p.Config.Tasks)
	if err != nil {
		return nil, err
	}
	for _, m := range p.All()[1:] {
		own, err := InputHashes(ctx, modelDirs[m.Key()], configs.Tasks{})
		if err != nil {
			return nil, err
		}
		hashes[modelInput(p, m)] = own["model"]
	}
	return hashes, nil
}
