package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
)

// heldOutShare is one item in how many that is kept for evaluation.
const heldOutShare = 16

// HeldOut tells whether item belongs to the evaluation set. It depends on what the question asks alone, not on
// its wording, its index or its seed, so no node ever trains on such an item, wherever it comes from, and
// all experiments share one evaluation set.
func HeldOut(item Item) bool {
	sum := sha256.Sum256(contentKey(item))
	return binary.BigEndian.Uint64(sum[:8])%heldOutShare == 0
}

// contentKey is the same for items that ask the same. For the nine tasks it is JSON of the task's name and the
// metadata that the question is made of, for others of question and answer.
func contentKey(item Item) []byte {
	content := taskContent(item)
	if content == nil {
		content = []any{"", pyStrip(item.Question), item.Answer}
	}
	// Marshal cannot fail on what Unmarshal yields, and sorts the keys of objects.
	key, _ := json.Marshal(content)
	return key
}

// taskContent is nil for an item of none of the nine tasks.
func taskContent(item Item) []any {
	if len(item.Metadata) > maxMetadata {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(item.Metadata))
	decoder.UseNumber()
	var metadata map[string]any
	if err := decoder.Decode(&metadata); err != nil {
		return nil
	}
	name, _ := metadata["source_dataset"].(string)
	pick := func(keys ...string) []any {
		content := []any{name}
		for _, key := range keys {
			content = append(content, metadata[key])
		}
		return content
	}
	switch name {
	case "arc_1d":
		test, _ := metadata["test_example"].(map[string]any)
		return append(pick("train_examples"), test["input"])
	case "basic_arithmetic":
		expression, _ := metadata["expression"].(string)
		return append(pick(), strings.ReplaceAll(expression, " ", ""))
	case "base_conversion":
		return pick("decimal_value", "source_base", "target_base")
	case "bf":
		return pick("bf_program")
	case "binary_matrix":
		return pick("matrix")
	case "calendar_arithmetic":
		return calendarContent(metadata, item.Answer, pick)
	case "decimal_arithmetic":
		// The expression is in the question only; what it comes to stands for it.
		return append(pick("decimal_places", "num_terms"), item.Answer)
	case "fraction_simplification":
		return pick("numerator", "denominator")
	case "propositional_logic":
		return pick("premises")
	}
	return nil
}

func calendarContent(metadata map[string]any, answer *string, pick func(...string) []any) []any {
	switch metadata["task"] {
	case "weekday_of_date_from_first_date":
		// The question names month and day, not the year.
		date, _ := metadata["target_date"].(string)
		return append(pick("task", "first_day"), date[strings.IndexByte(date, '-')+1:])
	case "weekday_of_date":
		return pick("task", "target_date")
	case "weekday_offset":
		return pick("task", "start_date", "offset_days")
	case "count_days":
		// The weekday to count is in the question only; the count stands for it.
		return append(pick("task", "start_date", "end_date"), answer)
	case "count_business_days":
		return pick("task", "start_date", "end_date")
	case "recurring_event_day":
		return pick("task", "year", "month", "ordinal", "weekday")
	}
	return pick("task", "year")
}
