package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// evaluationsFile holds a node's evaluations, one a line, in the order in which they were made.
const evaluationsFile = "evaluations.jsonl"

// evaluated is a line of evaluationsFile. It is on disk before the node reports the evaluation and before the next
// round begins. A process can therefore rely on the evaluations of earlier rounds being there, unless they were not
// configured then.
type evaluated struct {
	Time float64         `json:"time"` // end of the evaluation, Unix seconds
	Eval json.RawMessage `json:"eval"` // event.Eval
	Sum  string          `json:"sum"`  // CRC-32C of Eval, in hexadecimal
}

// evaluations holds the evaluations of this process and of previous ones. Call its methods from one goroutine.
type evaluations struct {
	path       string
	known      map[int]bool        // rounds whose evaluation is in the database or in the file
	unreported map[int]event.Event // evaluations of previous processes that the database lacks
	mend       bool                // the file ends in the middle of a line
}

// openEvaluations reads the evaluations of previous processes. recorded lists the rounds whose evaluation the
// database has. A damaged line counts as never written. If a round occurs twice, the later line counts: see settle.
func openEvaluations(path string, recorded []int, logger *slog.Logger) (*evaluations, error) {
	v := &evaluations{path: path, known: map[int]bool{}, unreported: map[int]event.Event{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evaluations: %w", err)
	}
	v.mend = len(data) > 0 && !bytes.HasSuffix(data, []byte{'\n'})
	for line := range bytes.Lines(data) {
		e, err := readEvaluated(line)
		if err != nil {
			logger.Warn("evaluation not used", "file", path, "reason", err)
			continue
		}
		v.known[e.Eval.Round], v.unreported[e.Eval.Round] = true, e
	}
	for _, round := range recorded {
		v.known[round] = true
		delete(v.unreported, round)
	}
	return v, nil
}

// settle records that the node resumes at round first, and returns the evaluations that previous processes have not
// reported. It drops evaluations of later rounds, whose weights are lost: the node makes them again.
func (v *evaluations) settle(first int) []event.Event {
	maps.DeleteFunc(v.known, func(round int, _ bool) bool { return round > first })
	var list []event.Event
	for _, round := range slices.Sorted(maps.Keys(v.unreported)) {
		if round <= first {
			list = append(list, v.unreported[round])
		}
	}
	v.unreported = nil
	return list
}

func readEvaluated(line []byte) (event.Event, error) {
	var l evaluated
	if err := json.Unmarshal(line, &l); err != nil {
		return event.Event{}, fmt.Errorf("a line is not JSON: %w", err)
	}
	if l.Sum != evaluatedSum(l.Eval) {
		return event.Event{}, errors.New("a line's checksum differs")
	}
	e := event.Event{Type: event.TypeEval, Time: l.Time, Replayed: true, Eval: new(event.Eval)}
	if err := json.Unmarshal(l.Eval, e.Eval); err != nil {
		return event.Event{}, fmt.Errorf("a line comes from another program version: %w", err)
	}
	return e, nil
}

func evaluatedSum(data []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// keep appends an evaluation to the file and syncs it to disk.
func (v *evaluations) keep(at float64, eval event.Eval) error {
	data, err := json.Marshal(eval)
	if err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	line, err := json.Marshal(evaluated{Time: at, Eval: data, Sum: evaluatedSum(data)})
	if err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	line = append(line, '\n')
	if v.mend {
		line = append([]byte{'\n'}, line...)
	}
	file, err := os.OpenFile(v.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	v.mend = true // in case the write is partial
	_, err = file.Write(line)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	v.mend, v.known[eval.Round] = false, true
	return nil
}

// evaluates reports whether weights after this number of rounds are due for evaluation: the initial ones (before round
// first), after every eval_every-th round, and after the last round.
func evaluates(c configs.Config, first, rounds int) bool {
	if c.EvalQuestions == 0 {
		return false
	}
	return rounds == first || rounds == c.Rounds || c.EvalEvery > 0 && rounds%c.EvalEvery == 0
}
