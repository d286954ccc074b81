package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// PaperFlag sets every key of the algorithm as the paper has it.
const PaperFlag = "paper"

// paperLayer is what --paper says, above all else. A layer that was given and says otherwise is an *Error: one of the
// two is a mistake.
func (f *Flags) paperLayer(given []Layer) (Layer, error) {
	if !f.Paper {
		return Layer{}, nil
	}
	l := Layer{Values: configs.PaperValues(), Sources: map[string]string{}}
	sync := configs.SyncBarrier
	for _, other := range given {
		if text := other.Text("sync"); text != "" {
			sync = text
		}
		for _, key := range slices.Sorted(maps.Keys(l.Values)) {
			value, ok := other.Values[key]
			if !ok || value == l.Values[key] || value == configs.SamplingAuto { // what auto is, the paper decides
				continue
			}
			return l, &configs.Error{Key: key, Value: fmt.Sprint(value), Source: other.Sources[key],
				Allowed: fmt.Sprintf("%v, or leave out --%s", l.Values[key], PaperFlag)}
		}
	}
	if sync != configs.SyncAsync {
		delete(l.Values, "external_sampling") // at the barrier auto is uniform
	}
	for key := range l.Values {
		l.Sources[key] = "--" + PaperFlag
	}
	return l, nil
}
