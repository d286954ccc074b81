package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
)

// heldOutShare is the inverse of the held-out share: one item in 16 is kept for evaluation.
const heldOutShare = 16

// HeldOut reports whether item belongs to the evaluation set. It depends only on the content of the question, not
// on its wording, index or seed. So no node trains on such an item, whatever its source, and all experiments share
// one evaluation set.
func HeldOut(item Item) bool {
	sum := sha256.Sum256(contentKey(item))
	return binary.BigEndian.Uint64(sum[:8])%heldOutShare == 0
}

// contentKey is equal for items with the same content. For the nine tasks it is JSON of the task's name and the
// metadata from which the question is made. For other items it is JSON of question and answer.
func contentKey(item Item) []byte {
	content := taskContent(item)
	if content == nil {
		content = []any{"", pyStrip(item.Question), item.Answer}
	}
	// Marshal cannot fail on values from Unmarshal, and it sorts the keys of objects.
	key, _ := json.Marshal(content)
	return key
}

// taskContent is nil for an item that is not of the nine tasks.
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
		// Only the question has the expression. Its value identifies it here.
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
		// Only the question has the weekday to count. The count identifies it here.
		return append(pick("task", "start_date", "end_date"), answer)
	case "count_business_days":
		return pick("task", "start_date", "end_date")
	case "recurring_event_day":
		return pick("task", "year", "month", "ordinal", "weekday")
	}
	return pick("task", "year")
}
