package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// leastLogprob is a lower bound of log-probabilities. Sampled tokens never have one this low.
const leastLogprob = -1e4

// maxNodeBytes bounds a node's name, in bytes.
const maxNodeBytes = 128

// Encode checks a batch against the bounds, sets its version and returns its JSON. Its errors wrap ErrInvalid.
func Encode(batch Batch) ([]byte, error) {
	batch.Version = Version
	if err := check(batch); err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false) // escaping would triple the size of every <answer>
	if err := encoder.Encode(batch); err != nil {
		return nil, invalidf("%v", err)
	}
	data := bytes.TrimSuffix(buffer.Bytes(), []byte{'\n'})
	if len(data) > MaxBatchBytes {
		return nil, invalidf("%d bytes, more than %d", len(data), MaxBatchBytes)
	}
	return data, nil
}

// Decode reads the batch that a node shared for a round. For any input it returns either ErrInvalid or a batch within
// the bounds, with JSON objects as metadata and valid UTF-8 as text. It allocates in proportion to the input. It
// ignores unknown fields so that newer nodes can add some.
func Decode(data []byte, wantNode string, wantRound int) (Batch, error) {
	if len(data) > MaxBatchBytes {
		return Batch{}, invalidf("%d bytes, more than %d", len(data), MaxBatchBytes)
	}
	if !utf8.Valid(data) {
		return Batch{}, invalidf("not UTF-8")
	}
	if err := checkLists(data); err != nil {
		return Batch{}, err
	}
	var batch Batch
	if err := jsonv2.Unmarshal(data, &batch, jsontext.AllowInvalidUTF8(true)); err != nil {
		reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "jsontext: "), "json: ")
		return Batch{}, invalidf("%.200s", reason) // the reason may quote a number of any length
	}
	switch {
	case batch.Version != Version:
		return Batch{}, invalidf("version %d, this program reads %d", batch.Version, Version)
	case batch.Node != wantNode:
		return Batch{}, invalidf("signed as node %.40q", batch.Node)
	case batch.Round != wantRound:
		return Batch{}, invalidf("signed as round %d", batch.Round)
	}
	if err := check(batch); err != nil {
		return Batch{}, err
	}
	return batch, nil
}

// Receive decodes the bytes that arrived for a node and a round. If Decode fails, the result has the node, the round,
// no rollouts and the reason.
func Receive(data []byte, node string, round int) *Received {
	batch, err := Decode(data, node, round)
	if err != nil {
		return &Received{Batch: Batch{Version: Version, Node: node, Round: round}, Bytes: len(data), Rejected: err.Error()}
	}
	return &Received{Batch: batch, Bytes: len(data)}
}

// check returns an error if the batch exceeds a bound.
func check(batch Batch) error {
	switch {
	case batch.Node == "" || len(batch.Node) > maxNodeBytes || !utf8.ValidString(batch.Node):
		return invalidf("node name %.40q", batch.Node)
	case batch.Round < 0:
		return invalidf("round %d", batch.Round)
	case len(batch.Rollouts) > MaxRollouts:
		return invalidf("%d rollouts, more than %d", len(batch.Rollouts), MaxRollouts)
	}
	tokens := 0
	for i, rollout := range batch.Rollouts {
		if err := checkRollout(rollout); err != nil {
			return fmt.Errorf("rollout %d: %w", i, err)
		}
		for _, c := range rollout.Completions {
			tokens += len(c.Tokens) + len(c.Logprobs)
		}
	}
	if tokens > MaxTokens {
		return invalidf("%d tokens, more than %d", tokens, MaxTokens)
	}
	return nil
}

func checkRollout(r Rollout) error {
	if err := checkText("question", r.Question, MaxQuestionBytes); err != nil {
		return err
	}
	if r.Answer != nil {
		if err := checkText("answer", *r.Answer, MaxQuestionBytes); err != nil {
			return err
		}
	}
	switch {
	case len(r.Metadata) > MaxMetadataBytes:
		return invalidf("metadata of %d bytes, more than %d", len(r.Metadata), MaxMetadataBytes)
	case !utf8.Valid(r.Metadata) || !json.Valid(r.Metadata) || bytes.TrimLeft(r.Metadata, " \t\r\n")[0] != '{':
		return invalidf("metadata is not a JSON object")
	case len(r.Completions) > MaxCompletions:
		return invalidf("%d completions, more than %d", len(r.Completions), MaxCompletions)
	}
	for i, completion := range r.Completions {
		if err := checkText("completion", completion.Text, MaxCompletionBytes); err != nil {
			return fmt.Errorf("completion %d: %w", i, err)
		}
		for _, p := range completion.Logprobs {
			if !(p <= 0 && p >= leastLogprob) {
				return invalidf("completion %d has a log-probability of %g", i, p)
			}
		}
	}
	return nil
}

func checkText(what, text string, limit int) error {
	if len(text) > limit {
		return invalidf("%s of %d bytes, more than %d", what, len(text), limit)
	}
	if !utf8.ValidString(text) {
		return invalidf("%s is not UTF-8", what)
	}
	return nil
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
