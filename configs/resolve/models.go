package resolve

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// swarmModels are the models in a configuration's layers.
type swarmModels struct {
	list    []configs.Model // each once, the first node's first
	text    string          // of the key models; empty: one model for all
	members []configs.Member
}

// resolveModels finds the models in the highest layer that has the key model or models. If one layer has both, models
// wins, and model must be the first of models.
func (s Sources) resolveModels(layers []Layer) (swarmModels, error) {
	one, many := -1, -1
	for i, l := range layers {
		if l.Text("model") != "" {
			one = i
		}
		if l.Text("models") != "" {
			many = i
		}
	}
	if many < 0 || many < one {
		model, err := s.resolveModel(layers)
		return swarmModels{list: []configs.Model{model}}, err
	}
	text, source := layers[many].Text("models"), layers[many].Sources["models"]
	members, err := configs.ParseMembers(text)
	if err != nil {
		return swarmModels{}, configs.WithSource(err, source)
	}
	out := swarmModels{members: members}
	for i := range members {
		m, err := s.FindModel(members[i].Model)
		if err != nil {
			return swarmModels{}, configs.WithSource(err, source)
		}
		if members[i].Model = m.Key(); !slices.ContainsFunc(out.list, func(o configs.Model) bool { return o.Key() == m.Key() }) {
			out.list = append(out.list, m)
		}
	}
	out.text = configs.MembersText(text, members)
	if one < many {
		return out, nil
	}
	named := layers[many].Text("model")
	if m, err := s.FindModel(named); err != nil || m.Key() != members[0].Model {
		return swarmModels{}, &configs.Error{
			Key: "model", Value: named, Source: layers[many].Sources["model"],
			Allowed: "either model or models, or the first of models as model, " + members[0].Model,
		}
	}
	return out, nil
}

// settle puts the models into a configuration. A member's own settings are the value given for all, else its model's
// default.
func (s swarmModels) settle(c *configs.Config, given []Layer) error {
	c.Model, c.Models, c.Members = s.list[0].Key(), s.text, s.members
	for i := range c.Members {
		m := &c.Members[i]
		at := slices.IndexFunc(s.list, func(o configs.Model) bool { return o.Key() == m.Model })
		own, err := presetLayer(s.list[at].Defaults, "model "+s.list[at].Name)
		if err != nil {
			return err
		}
		merged, err := merge(append([]Layer{{Values: configs.Values(configs.Default())}, own}, given...))
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Model, err)
		}
		m.LearningRate, m.MicroBatch = merged.LearningRate, merged.MicroBatch
	}
	return nil
}
