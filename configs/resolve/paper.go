package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// PaperFlag is the flag that sets every key of the algorithm to the paper's value.
const PaperFlag = "paper"

// paperLayer returns the values of --paper, the highest layer. A given value that contradicts the paper is an *Error,
// because one of the two is a mistake.
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
			if !ok || value == l.Values[key] || value == configs.SamplingAuto { // --paper resolves auto
				continue
			}
			return l, &configs.Error{Key: key, Value: fmt.Sprint(value), Source: other.Sources[key],
				Allowed: fmt.Sprintf("%v, or the command without --%s", l.Values[key], PaperFlag)}
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
