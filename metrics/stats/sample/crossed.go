package sample

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Random streams of a Crossed. A Bootstrap has stream 0.
const (
	questionStream = 2
	seedStream     = 3
	ratioStream    = 4
)

// Crossed computes intervals over seeds and questions of a crossed design, in which every seed answers every question.
// It bootstraps the questions within their strata. Seeds are few, and resampled seeds would take few values. Their
// error is therefore drawn from Student's t, as in Welch's interval.
type Crossed struct {
	counts  []uint16  // how often each question is in each resample, one resample after the other
	weights []float64 // of one draw of each question
}

// NewCrossed draws the questions of all resamples with a fixed seed. strata names each question's stratum; there is at
// least one question. Of n questions of a stratum a resample has n-1, each with weight n/(n-1), so that the variance is
// unbiased (Rao and Wu 1988). A question that is alone in its stratum is in every resample.
func NewCrossed(strata []string) *Crossed {
	size := len(strata)
	c := &Crossed{make([]uint16, Resamples*size), make([]float64, size)}
	members := map[string][]int{}
	for question, stratum := range strata {
		members[stratum] = append(members[stratum], question)
	}
	for _, questions := range members {
		for _, question := range questions {
			c.weights[question] = float64(len(questions)) / float64(max(1, len(questions)-1)) / float64(size)
		}
	}
	random := rand.New(rand.NewPCG(0xb007, questionStream)) //nolint:gosec // a fixed seed: the same interval each time
	names := slices.Sorted(maps.Keys(members))
	for resample := range slices.Chunk(c.counts, size) {
		for _, name := range names {
			questions := members[name]
			for range max(1, len(questions)-1) {
				resample[questions[random.IntN(len(questions))]]++
			}
		}
	}
	return c
}

// Difference returns the interval of mean(a) - mean(b). Each side has a list for each of its seeds, with the result of
// each question. Both sides answered the same questions, so that a resample has the same questions for both. The
// interval is NaN if a side has fewer than two seeds.
func (c *Crossed) Difference(a, b [][]float64) (low, high float64) {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN(), math.NaN()
	}
	weighted := slices.Clone(c.weights) // the difference in each question, with its weight
	for question := range weighted {
		weighted[question] *= meanOf(a, question) - meanOf(b, question)
	}
	err, freedom, _ := welchError(means(a), means(b)) // no error if no seed differs from another
	seeds := distuv.StudentsT{Sigma: err, Nu: freedom, Src: rand.NewPCG(0xb007, seedStream)}
	differences := make([]float64, 0, Resamples)
	for counts := range slices.Chunk(c.counts, len(weighted)) {
		sum := 0.0
		for question, n := range counts {
			sum += float64(n) * weighted[question]
		}
		if err > 0 {
			sum += seeds.Rand()
		}
		differences = append(differences, sum)
	}
	slices.Sort(differences)
	return Quantile(differences, lowShare), Quantile(differences, highShare)
}

// means returns each seed's mean over the questions.
func means(seeds [][]float64) []float64 {
	out := make([]float64, len(seeds))
	for i, results := range seeds {
		out[i] = Mean(results)
	}
	return out
}

// meanOf returns the mean of a question over the seeds.
func meanOf(seeds [][]float64, question int) float64 {
	sum := 0.0
	for _, results := range seeds {
		sum += results[question]
	}
	return sum / float64(len(seeds))
}
