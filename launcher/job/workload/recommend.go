package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// maxBatch is the largest batch if the profile has no limit.
const maxBatch = 1 << 16

// wellBelow is the part of the target below which an effective batch gets a warning: guide 2's rows are at 88 % and
// more.
const wellBelow = 0.88

// computed returns the largest batch with a memory within the margin.
func (q question) computed() (Recommendation, error) {
	least, most := q.limits()
	room := int64(q.margin * float64(q.r.GPUMemory))
	// Memory grows with the batch, so bisection finds the largest that fits. If a formula doesn't grow, the result
	// fits too, but may not be the largest.
	best := 0
	for low, high := least, most; low <= high; {
		middle := low + (high-low)/2
		_, bytes, err := q.need(middle)
		if err != nil {
			return Recommendation{}, err
		}
		if bytes <= room {
			best, low = middle, middle+1
		} else {
			high = middle - 1
		}
	}
	fits := best > 0
	out, err := q.answer(max(best, least), nil)
	if err != nil {
		return out, err
	}
	out.Fits = fits
	if !fits {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s %d, the minimum, is expected to take %s, more than %s of %s (margin %g)",
			q.batch.Name, out.Batch, q.size(out.ExpectedBytes), q.size(room), q.size(q.r.GPUMemory), q.margin))
	}
	even := q.target / ((out.Accumulate + 1) * q.devices)
	if float64(out.EffectiveBatch) < wellBelow*float64(q.target) && even >= least && even < out.Batch {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the effective batch is %d instead of %d; %s %d with %s %d gives %d", out.EffectiveBatch, q.target,
			q.batch.Name, even, q.accumulate.Name, out.Accumulate+1, even*(out.Accumulate+1)*q.devices))
	}
	return out, nil
}

// limits returns the smallest and the largest batch. A batch never exceeds the target of the effective batch alone.
func (q question) limits() (least, most int) {
	if n, fixed := q.r.Fixed[q.batch.Name]; fixed {
		return int(n), int(n)
	}
	least, most = max(1, int(q.batch.Min)), int(q.batch.Max)
	if most == 0 {
		most = maxBatch
	}
	if q.target > 0 {
		steps := q.devices
		if n, fixed := q.r.Fixed[q.accumulate.Name]; fixed {
			steps *= int(n)
		}
		most = min(most, max(1, q.target/steps))
	}
	return least, max(least, most)
}

// steps returns the accumulation for the largest effective batch up to the target.
func (q question) steps(batch int) int {
	if q.accumulate.Name == "" {
		return 1
	}
	if n, fixed := q.r.Fixed[q.accumulate.Name]; fixed {
		return int(n)
	}
	if q.target == 0 {
		start, _ := configs.Number(q.accumulate.Start)
		return max(1, int(start))
	}
	return max(1, int(clamp(float64(q.target/(batch*q.devices)), q.accumulate.Min, q.accumulate.Max)))
}

// published answers with one of the profile's rows.
func (q question) published(row configs.KnownRow) (Recommendation, error) {
	given := map[string]string{}
	for _, e := range row.Values {
		given[e.Value] = e.To
	}
	batch, _ := configs.Number(given[q.batch.Name])
	out, err := q.answer(int(batch), given)
	if err != nil {
		return out, err
	}
	out.Published, out.PublishedFor, out.Fits = true, row.Name, true
	if row.Note != "" {
		out.Warnings = append(out.Warnings, row.Note)
	}
	out.Warnings = append(out.Warnings, q.otherThanPublished(row, given)...)
	if row.Expected == 0 {
		return out, nil
	}
	formula := out.ExpectedBytes
	for i := range out.Stages {
		if out.Stages[i].ExpectedBytes == formula {
			out.Stages[i].ExpectedBytes = row.Expected
		}
	}
	out.ExpectedBytes = row.Expected
	out.Utilisation = float64(row.Expected) / float64(q.r.GPUMemory)
	if formula > 0 && math.Abs(float64(formula-row.Expected)) > 0.01*float64(row.Expected) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the source states %s for these values, but its formula gives %s",
			q.size(row.Expected), q.size(formula)))
	}
	return out, nil
}

// otherThanPublished warns about file values that differ from the source of a row, if no formula can correct the
// row's figures.
func (q question) otherThanPublished(row configs.KnownRow, given map[string]string) (warnings []string) {
	if len(q.w.Memory) > 0 {
		return nil
	}
	for i, v := range q.own.Values {
		if now := q.w.Values[i].Start; given[v.Name] == "" && v.Role == "" && !same(now, v.Start) {
			warnings = append(warnings, fmt.Sprintf("the figures for %s are for %s %s, but the files have %s", row.Name, v.Name, v.Start, now))
		}
	}
	return warnings
}

// unknown answers without a formula or a measurement: with the nearest published row, or with the profile's start
// values.
func (q question) unknown(row configs.KnownRow, found bool) (Recommendation, error) {
	if !found {
		start, _ := configs.Number(q.batch.Start)
		if n, fixed := q.r.Fixed[q.batch.Name]; fixed {
			start = n
		}
		out, err := q.answer(int(start), nil)
		out.Warnings = append(out.Warnings, fmt.Sprintf("profile %s has no memory figures: these are its initial values. "+
			"Try: --profile -- CMD to measure", q.w.Name))
		return out, err
	}
	out, err := q.published(row)
	if err != nil {
		return out, err
	}
	out.Published = q.rowMatches(row) // else the row is for another GPU
	out.Fits = out.ExpectedBytes <= int64(q.margin*float64(q.r.GPUMemory)) || out.Published
	out.Warnings = append(out.Warnings, fmt.Sprintf("profile %s has no formula, only figures for %s (%s). Try: --profile -- CMD to measure",
		q.w.Name, row.Name, q.size(row.GPUMemory)))
	return out, nil
}

// answer builds a recommendation for a batch. given are a published row's values.
func (q question) answer(batch int, given map[string]string) (Recommendation, error) {
	steps := q.steps(batch)
	if text, found := given[q.accumulate.Name]; found {
		n, _ := configs.Number(text)
		steps = int(n)
	}
	out := Recommendation{
		Batch: batch, Accumulate: steps, EffectiveBatch: batch * steps * q.devices, Devices: q.devices, SafetyMargin: q.margin,
		Components: []Component{}, Stages: []Stage{}, Warnings: []string{},
	}
	at, err := q.numbers(batch, configs.Stage{})
	if err != nil {
		return out, err
	}
	for _, v := range q.w.Values {
		out.Values = append(out.Values, q.value(v, out, at, given))
	}
	if q.r.Fitted != nil || len(q.w.Memory) > 0 {
		if out.Components, out.ExpectedBytes, err = q.need(batch); err != nil {
			return out, err
		}
		out.Utilisation = float64(out.ExpectedBytes) / float64(q.r.GPUMemory)
	}
	for _, s := range q.w.Stages {
		stage, err := q.stage(batch, s)
		if err != nil {
			return out, err
		}
		out.Stages = append(out.Stages, stage)
	}
	return out, nil
}

// value returns the recommended value, and whether it was decided here.
func (q question) value(v configs.WorkloadValue, out Recommendation, at map[string]float64, given map[string]string) Value {
	value := Value{Name: v.Name, Value: v.Start, Places: places(v.Places)}
	fixed, isFixed := q.r.Fixed[v.Name]
	published, isPublished := given[v.Name]
	decided := ""
	switch {
	case v.Role == configs.RoleBatch:
		value.Value, decided = strconv.Itoa(out.Batch), q.by(isFixed, isPublished)
	case v.Role == configs.RoleAccumulate:
		value.Value, decided = strconv.Itoa(out.Accumulate), q.by(isFixed, isPublished)
	case isFixed:
		value.Value, decided = number(fixed, v.Start), SourceSet
	case isPublished:
		value.Value, decided = published, SourcePublished
	case v.Recommended != "":
		value.Value, decided = v.Recommended, SourceRecommended
	case !v.Rule.Empty():
		if value.Value = number(at[v.Name], v.Start); !same(value.Value, v.Start) {
			decided = SourceRule
		}
	}
	value.Origin = q.origin("", v.Name, decided)
	value.Decided = decided != "" && (v.Role != "" || q.writable("", v.Name, decided))
	if !v.Rule.Empty() && value.Source == SourceDefault {
		value.Source, value.Assumed, value.Why = SourceRule, false, ""
	}
	return value
}

// by returns the source of the batch and the accumulation.
func (q question) by(fixed, published bool) string {
	switch {
	case fixed:
		return SourceSet
	case published:
		return SourcePublished
	case q.r.Fitted != nil && q.r.FittedFrom != "":
		return q.r.FittedFrom
	case q.r.Fitted != nil:
		return SourceMeasured
	case len(q.w.Memory) == 0:
		return SourceDefault
	}
	return SourceComputed
}

func (q question) stage(batch int, s configs.Stage) (Stage, error) {
	out := Stage{Name: s.Name, Values: []Value{}}
	for _, v := range s.Values {
		value := Value{Name: v.Name, Value: v.Value, Places: places(v.Places)}
		known, _ := q.w.Value(v.Name)
		if len(value.Places) == 0 {
			value.Places = places(known.Places)
		}
		decided := ""
		if n, fixed := q.r.Fixed[v.Name]; fixed {
			value.Value, decided = number(n, known.Start), SourceSet
		}
		value.Origin = q.origin(s.Name, v.Name, decided)
		value.Decided = decided != "" && q.writable(s.Name, v.Name, decided) || decided == "" && value.File == ""
		out.Values = append(out.Values, value)
	}
	if q.r.Fitted != nil || len(q.w.Memory) == 0 { // the stage of a measured line is unknown
		return out, nil
	}
	_, bytes, err := q.components(batch, s)
	out.ExpectedBytes = bytes
	return out, err
}

// number formats n like the value in its file: as true or false if like is a boolean, with the same capitals.
func number(n float64, like string) string {
	switch strings.ToLower(like) {
	case "true", "false":
		text := strconv.FormatBool(n != 0)
		if like[0] < 'a' {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		return text
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// places never returns nil, so that JSON has a list instead of null.
func places(from []string) []string { return append([]string{}, from...) }
