package prometheus

import (
	"strings"

	prom "github.com/prometheus/client_golang/prometheus"
)

// maxLabel is how many bytes of a label's value are kept: names come from people and from events.
const maxLabel = 200

// page is the answer to one scrape.
type page struct {
	metrics []prom.Metric
	seen    map[string]bool // name and labels: Prometheus refuses a page that has a series twice
}

// series are the samples of one run.
type series struct {
	*page
	run, experiment string
}

// add appends a sample; labels as in the family, without run and experiment.
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

// known appends a sample whose value may be unknown.
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
