package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// failureLog keeps the latest failures of a node since its last completed round. They explain why the node is given
// up.
type failureLog struct {
	most int
	all  []failure
}

type failure struct {
	at             time.Time
	cause, message string
}

// add records a failure after an attempt that completed this number of rounds.
func (f *failureLog) add(at time.Time, cause, message string, rounds int) {
	if rounds > 0 {
		f.all = nil
	}
	f.all = append(f.all, failure{at, cause, message})
	f.all = f.all[max(0, len(f.all)-f.most):]
}

// counts returns the causes and their frequencies, most frequent first. Among equal frequencies, the latest comes
// first.
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

// main returns the most frequent cause, of several the latest, and its last message.
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
	return "", "" // unreachable: each cause belongs to a failure
}

// String returns the number of failures, their time span and their causes.
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
