package fit

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Companion is another model of a swarm whose nodes have different models.
type Companion struct {
	Model    configs.Model
	Measured *Measured // nil: no measurement
}

// checkCompanions puts the model with the most parameters first, because the guides' node counts are looked up by the
// first model. If a model has no measurement, it drops all measurements, so that all bytes of a node have one source.
func (r *Request) checkCompanions() error {
	if len(r.Companions) == 0 {
		return nil
	}
	r.Companions = slices.Clone(r.Companions)
	measured := r.Measured != nil
	for i := range r.Companions {
		c := &r.Companions[i]
		if !known(c.Model.Shape) {
			return fmt.Errorf("%w: model %q: its shape is unknown", ErrRequest, c.Model.Name)
		}
		measured = measured && c.Measured != nil
		if c.Model.Shape.Parameters > r.Model.Shape.Parameters {
			r.Model, r.Measured, c.Model, c.Measured = c.Model, c.Measured, r.Model, r.Measured
		}
	}
	if !measured {
		r.estimateOnly()
	}
	return nil
}

// known reports whether a shape is complete enough for an estimate.
func known(s configs.Shape) bool {
	return s.Parameters > 0 && s.Layers > 0 && s.Width > 0 && s.Vocabulary > 0
}

// estimateOnly drops all measurements.
func (r *Request) estimateOnly() {
	r.Measured, r.Companions = nil, slices.Clone(r.Companions)
	for i := range r.Companions {
		r.Companions[i].Measured = nil
	}
}

// name returns the name of the model, or the names of all models.
func (r *Request) name() string {
	names := []string{r.Model.Name}
	for _, c := range r.Companions {
		names = append(names, c.Model.Name)
	}
	return units.List(names, "and")
}

// largest returns, for each phase, the components of the node that needs more memory in it. The result fits either
// node.
func largest(a, b []Component) []Component {
	var parts []Component
	for _, phase := range []string{PhaseShared, PhaseResident, PhaseGenerate, PhaseUpdate} {
		one, other := of(a, phase), of(b, phase)
		if total(other) > total(one) {
			one = other
		}
		parts = append(parts, one...)
	}
	return parts
}

func of(parts []Component, phase string) []Component {
	return slices.DeleteFunc(slices.Clone(parts), func(c Component) bool { return c.Phase != phase })
}
