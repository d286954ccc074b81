package prometheus

import (
	"strings"

	prom "github.com/prometheus/client_golang/prometheus"
)

// maxLabel bounds the value of a label in bytes, because names come from users and events.
const maxLabel = 200

// page is the response to one scrape.
type page struct {
	metrics []prom.Metric
	seen    map[string]bool // names with labels, because Prometheus rejects duplicate series
}

// series holds the samples of one run.
type series struct {
	*page
	run, experiment string
}

// add appends a sample. labels are those of the family, without run and experiment.
func (s series) add(f family, v float64, labels ...string) {
	values := append([]string{s.run, s.experiment}, labels...)
	for i, label := range values {
		values[i] = clean(label)
	}
	key := f.name + "\xff" + strings.Join(values, "\xff")
	if s.seen[key] {
		return
	}
	m, err := prom.NewConstMetric(f.desc, f.kind, v, values...)
	if err != nil {
		m = prom.NewInvalidMetric(f.desc, err)
	}
	s.seen[key] = true
	s.metrics = append(s.metrics, m)
}

// known appends a sample unless its value is unknown.
func (s series) known(f family, v *float64, labels ...string) {
	if v != nil {
		s.add(f, *v, labels...)
	}
}

// clean makes a label's value valid UTF-8 of bounded length.
func clean(label string) string {
	if len(label) > maxLabel {
		label = label[:maxLabel]
	}
	return strings.ToValidUTF8(label, "\uFFFD")
}
