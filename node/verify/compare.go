package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Metrics that a repeated round must reproduce, by group: the node's own rollouts, values known before the update,
// whether there was an update, and the update's floating-point results. Times are not compared.
var (
	own     = repeated(event.RepeatOwn)
	scored  = append(own[:len(own):len(own)], repeated(event.RepeatScored)...)
	stepped = repeated(event.RepeatStepped)
	learned = repeated(event.RepeatLearned)
)

func repeated(in event.Repeat) []event.Metric {
	var list []event.Metric
	for _, m := range event.Metrics() {
		if m.Repeat == in {
			list = append(list, m)
		}
	}
	return list
}

// figure returns a metric's value as text. For a value that is not finite it returns its recorded name.
func figure(m event.Metric, r *event.Round) string {
	if was, ok := r.NonFinite[m.Name]; ok {
		return strings.ToLower(was)
	}
	if v := m.Number(r); !math.IsNaN(v) {
		return fmt.Sprint(v)
	}
	return "nan"
}

// unequal lists the metrics in which a recorded report differs from the repeated one. Numbers are compared with full
// precision. A record may lack an optional metric of the node's own rollouts if an earlier version of the program wrote
// it, and the database has no training metrics of a node that only generates. unequal skips such metrics.
func unequal(got, found event.Round, metrics []event.Metric) []event.Metric {
	var list []event.Metric
	for _, m := range metrics {
		if m.Training && got.GenerateOnly || m.Optional && m.Repeat == event.RepeatOwn && math.IsNaN(m.Number(&found)) {
			continue
		}
		if figure(m, &got) != figure(m, &found) {
			list = append(list, m)
		}
	}
	return list
}

// compare records the metrics in which a recorded report differs from the repeated one.
func (c *check) compare(round int, where string, got, found event.Round, groups ...[]event.Metric) {
	for _, metrics := range groups {
		for _, m := range unequal(got, found, metrics) {
			c.add(*c.differs(round, m.Name, where, figure(m, &got), figure(m, &found)))
		}
	}
}

// comparePeers compares the counts of what each peer offered. Reports of earlier versions have no reasons.
func (c *check) comparePeers(round int, got, found event.Round) {
	for i := range max(len(got.Peers), len(found.Peers)) {
		e, f := at(got.Peers, i), at(found.Peers, i)
		if f.Reason == "" {
			e.Reason = ""
		}
		if e != f {
			c.add(*c.differs(round, "peer "+e.Node, Journal, fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", f)))
		}
	}
}

// compareTasks compares the rewards by task.
func (c *check) compareTasks(round int, got, found event.Round) {
	for i := range max(len(got.Tasks), len(found.Tasks)) {
		if e, f := at(got.Tasks, i), at(found.Tasks, i); e != f {
			c.add(*c.differs(round, "task "+e.Task, Journal, fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", f)))
		}
	}
}

// unequalUpdates describes the first difference between two training sets, "" if they are equal.
func unequalUpdates(expected, found policy.UpdateParams) (what, e, f string) {
	for i := range max(len(expected.Prompts), len(found.Prompts)) {
		if p := firstUnequal(at(expected.Prompts, i), at(found.Prompts, i)); p >= 0 {
			return fmt.Sprintf("token %d of prompt %d of the training set", p, i), element(at(expected.Prompts, i), p), element(at(found.Prompts, i), p)
		}
	}
	if len(expected.Sequences) != len(found.Sequences) {
		return "sequences of the training set", fmt.Sprint(len(expected.Sequences)), fmt.Sprint(len(found.Sequences))
	}
	for i, s := range expected.Sequences {
		other := found.Sequences[i]
		of := fmt.Sprintf(" of sequence %d of the training set", i)
		if s.Prompt != other.Prompt {
			return "prompt" + of, fmt.Sprint(s.Prompt), fmt.Sprint(other.Prompt)
		}
		if t := firstUnequal(s.Completion, other.Completion); t >= 0 {
			return fmt.Sprintf("token %d", t) + of, element(s.Completion, t), element(other.Completion, t)
		}
		if s.Advantage != other.Advantage {
			return "advantage" + of, fmt.Sprint(s.Advantage), fmt.Sprint(other.Advantage)
		}
		if t := firstUnequal(s.OldLogprobs, other.OldLogprobs); t >= 0 {
			return fmt.Sprintf("log-probability %d", t) + of, element(s.OldLogprobs, t), element(other.OldLogprobs, t)
		}
	}
	expected.Prompts, expected.Sequences, found.Prompts, found.Sequences = nil, nil, nil, nil
	if e, f := document(expected), document(found); e != f {
		return "options of the update", e, f
	}
	return "", "", ""
}

// unequalBatches describes the first difference between two shared batches, "" if they are equal.
func unequalBatches(expected, found exchange.Batch) (what, e, f string) {
	if len(expected.Rollouts) != len(found.Rollouts) {
		return "shared rollouts", fmt.Sprint(len(expected.Rollouts)), fmt.Sprint(len(found.Rollouts))
	}
	for i, r := range expected.Rollouts {
		other := found.Rollouts[i]
		of := fmt.Sprintf(" of shared rollout %d", i)
		switch {
		case r.Question != other.Question:
			return "question" + of, fmt.Sprintf("%q", r.Question), fmt.Sprintf("%q", other.Question)
		case document(r.Answer) != document(other.Answer):
			return "answer" + of, document(r.Answer), document(other.Answer)
		case !sameJSON(r.Metadata, other.Metadata):
			return "metadata" + of, string(r.Metadata), string(other.Metadata)
		}
		if c := firstUnequal(documents(r.Completions), documents(other.Completions)); c >= 0 {
			return fmt.Sprintf("completion %d", c) + of, document(at(r.Completions, c)), document(at(other.Completions, c))
		}
	}
	return "", "", ""
}

// sameJSON compares two documents literally, except for spaces and escapes.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(compact(a), compact(b))
}

func compact(raw json.RawMessage) []byte {
	text, err := json.Marshal(raw)
	if err != nil {
		return raw
	}
	return text
}

func documents[T any](list []T) []string {
	var out []string
	for _, v := range list {
		out = append(out, document(v))
	}
	return out
}

func document(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// firstUnequal returns the index of the first element in which two lists differ, -1 if they are equal.
func firstUnequal[T comparable](a, b []T) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// element returns a list's element as text.
func element[T any](list []T, i int) string {
	if i >= len(list) {
		return "nothing"
	}
	return fmt.Sprint(list[i])
}

// at returns a list's element, or the zero value beyond its end.
func at[T any](list []T, i int) (element T) {
	if i < len(list) {
		element = list[i]
	}
	return element
}
