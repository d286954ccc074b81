package e2e

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// memorySeries is a process's resident memory over the messages sent.
type memorySeries struct {
	pid        int
	sent, size []float64
}

func (m *memorySeries) sample(sent int) error {
	rss, err := residentBytes(m.pid)
	if err != nil {
		return err
	}
	m.sent, m.size = append(m.sent, float64(sent)), append(m.size, rss)
	return nil
}

// growth returns the increase of the memory over the second half, in bytes, from a least-squares line.
func (m *memorySeries) growth() float64 {
	half := len(m.sent) / 2
	_, slope := stat.LinearRegression(m.sent[half:], m.size[half:], nil, false)
	return slope * (m.sent[len(m.sent)-1] - m.sent[half])
}

func (m *memorySeries) String() string {
	return fmt.Sprintf("the coordinator's memory: %.0f MB before, %.0f MB half way, %.0f MB at the end, at most %.0f MB; in the second half it grows by %.1f MB",
		m.size[0]/1e6, m.size[len(m.size)/2]/1e6, m.size[len(m.size)-1]/1e6, slices.Max(m.size)/1e6, m.growth()/1e6)
}
