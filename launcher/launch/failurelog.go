package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// failureLog is the failures of a node since it last got a round done, the latest of them: what a give-up is explained
// with.
type failureLog struct {
	most int
	all  []failure
}

type failure struct {
	at             time.Time
	cause, message string
}

// add notes a failure after an attempt of so many rounds.
func (f *failureLog) add(at time.Time, cause, message string, rounds int) {
	if rounds > 0 {
		f.all = nil
	}
	f.all = append(f.all, failure{at, cause, message})
	f.all = f.all[max(0, len(f.all)-f.most):]
}

// counts are the causes with how often each was there, the most frequent first, of equals the latest.
func (f *failureLog) counts() (causes []string, times map[string]int) {
	times = map[string]int{}
	for _, failure := range slices.Backward(f.all) {
		if times[failure.cause]++; times[failure.cause] == 1 {
			causes = append(causes, failure.cause)
		}
	}
	slices.SortStableFunc(causes, func(a, b string) int { return times[b] - times[a] })
	return causes, times
}

// main is the most frequent cause, of several the latest, with what was last said of it.
func (f *failureLog) main() (cause, message string) {
	causes, _ := f.counts()
	if len(causes) == 0 {
		return "", ""
	}
	for _, failure := range slices.Backward(f.all) {
		if failure.cause == causes[0] {
			return failure.cause, failure.message
		}
	}
	return "", "" // not reached: each cause is one of a failure
}

// String says how many failures there were, in what time and of what kind.
func (f *failureLog) String() string {
	causes, times := f.counts()
	var kinds []string
	for _, cause := range causes {
		kinds = append(kinds, fmt.Sprintf("%s %d", cause, times[cause]))
	}
	if len(f.all) < 2 {
		return fmt.Sprintf("given up after %d failure", len(f.all))
	}
	span := f.all[len(f.all)-1].at.Sub(f.all[0].at)
	return fmt.Sprintf("given up after %d failures in %s without a round: %s", len(f.all), span.Round(time.Second), strings.Join(kinds, ", "))
}
