package configs

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

var (
	valueName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	relative    = regexp.MustCompile(`^(/|x|<=|>=)([0-9]+(?:\.[0-9]+)?)$`)
)

// Relative splits a ladder's relative edit into its operator (/, x, <= or >=) and its number. ok is false for a text
// that replaces the value.
func Relative(to string) (operator string, number float64, ok bool) {
	m := relative.FindStringSubmatch(to)
	if m == nil {
		return "", 0, false
	}
	number, err := strconv.ParseFloat(m[2], 64)
	return m[1], number, err == nil
}

// Number parses a value's text. true and false are 1 and 0.
func Number(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && units.Finite(n)
}

// validate checks combinations of keys.
func (r profileReader) validate(w Workload) error {
	if !profileName.MatchString(w.Name) {
		return r.wrong("name", w.Name, "1 to 64 letters, digits, dots, - and _")
	}
	for _, check := range []func(Workload) error{r.checkValues, r.checkStages, r.checkMemory, r.checkKnown, r.checkLadder} {
		if err := check(w); err != nil {
			return err
		}
	}
	return nil
}

// wrong returns an *Error at the key's line, or at its nearest parent's.
func (r profileReader) wrong(key, value, allowed string) error {
	e := &Error{Key: key, Value: value, Allowed: allowed, Source: r.file}
	for k := key; k != ""; {
		if line, known := r.lines[k]; known {
			e.Source = fmt.Sprintf("%s:%d", r.file, line)
			break
		}
		k = k[:max(0, strings.LastIndexByte(k, '.'))]
	}
	return e
}

func (r profileReader) checkValues(w Workload) error {
	seen, roles := map[string]bool{NameGPUMemory: true, NameGPUs: true}, map[string]int{}
	for i, v := range w.Values {
		key := fmt.Sprintf("values.%d", i+1)
		roles[v.Role]++
		start, numeric := Number(v.Start)
		switch {
		case !valueName.MatchString(v.Name):
			return r.wrong(key+".name", v.Name, "a letter followed by letters, digits and _, at most 64 characters")
		case seen[v.Name]:
			return r.wrong(key+".name", v.Name, "a unique name other than gpu_memory and gpus")
		case v.Role != "" && !(numeric && start >= 1 && start <= maxBatch && start == math.Trunc(start)):
			return r.wrong(key+".start", v.Start, fmt.Sprintf("a whole number from 1 to %d, for a %s", maxBatch, v.Role))
		case v.Max != 0 && v.Max < v.Min:
			return r.wrong(key+".max", fmt.Sprint(v.Max), fmt.Sprintf("a number from min, %g", v.Min))
		case v.Role != "" && v.Max > maxBatch:
			return r.wrong(key+".max", fmt.Sprint(v.Max), fmt.Sprintf("at most %d, for a %s", maxBatch, v.Role))
		case v.Role != "" && !v.Rule.Empty():
			return r.wrong(key+".rule", v.Rule.String(), "none for a batch or an accumulation, which memory and target_effective_batch decide")
		case v.Role != "" && v.Recommended != "":
			return r.wrong(key+".recommended", v.Recommended, "none for a batch or an accumulation, which memory and target_effective_batch decide")
		}
		seen[v.Name] = true
		if err := r.checkPlaces(key+".place", v.Places); err != nil {
			return err
		}
		if err := r.checkFormula(w, key+".rule", v.Rule, false); err != nil {
			return err
		}
	}
	if roles[RoleBatch] != 1 || roles[RoleAccumulate] > 1 {
		return r.wrong("values", fmt.Sprintf("%d with role batch, %d with role accumulate", roles[RoleBatch], roles[RoleAccumulate]),
			"one value with role batch, and at most one with role accumulate")
	}
	if _, found := w.ByRole(RoleAccumulate); w.TargetEffectiveBatch > 0 && !found {
		return r.wrong("target_effective_batch", strconv.Itoa(w.TargetEffectiveBatch), "none, because no value has role accumulate")
	}
	return nil
}

// checkPlaces refuses places outside the user's folder, because a profile may come from an untrusted author.
func (r profileReader) checkPlaces(key string, places []string) error {
	for _, p := range places {
		file, name, found := strings.Cut(p, ":")
		if !found || file == "" || name == "" || strings.HasPrefix(file, "/") || strings.Contains(file, "\\") ||
			slices.Contains(strings.Split(file, "/"), "..") {
			return r.wrong(key, p, "FILE:KEY with a file in the training's folder, such as conf/config.yaml:train.batch_size")
		}
	}
	return nil
}

// checkFormula refuses names without a value. With rules, the formula may use values that have rules.
func (r profileReader) checkFormula(w Workload, key string, f Formula, rules bool) error {
	for _, name := range f.Names() {
		if name == NameGPUMemory || name == NameGPUs {
			continue
		}
		v, found := w.Value(name)
		_, numeric := Number(v.Start)
		if !found || v.Role == RoleAccumulate || !v.Rule.Empty() && !rules || v.Rule.Empty() && !numeric && !inEveryStage(w, name) {
			return r.wrong(key, f.String(), "names of values whose start is a number, gpu_memory and gpus; "+quote(name)+" is none")
		}
	}
	return nil
}

func inEveryStage(w Workload, name string) bool {
	for _, s := range w.Stages {
		v, _ := s.Value(name)
		if _, numeric := Number(v.Value); !numeric {
			return false
		}
	}
	return len(w.Stages) > 0
}

func (r profileReader) checkStages(w Workload) error {
	seen := map[string]bool{}
	for i, s := range w.Stages {
		key := fmt.Sprintf("stages.%d", i+1)
		if s.Name == "" || seen[s.Name] {
			return r.wrong(key+".name", s.Name, "a unique stage name")
		}
		seen[s.Name] = true
		for j, v := range s.Values {
			key := fmt.Sprintf("%s.values.%d", key, j+1)
			if known, found := w.Value(v.Name); !found || known.Role != "" {
				return r.wrong(key+".name", v.Name, "a value of this profile without a role")
			}
			if v.Value == "" {
				return r.wrong(key+".value", v.Value, "a text")
			}
			if err := r.checkPlaces(key+".place", v.Places); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r profileReader) checkMemory(w Workload) error {
	for i, m := range w.Memory {
		key := fmt.Sprintf("memory.%d", i+1)
		if m.Name == "" {
			return r.wrong(key+".name", "", "a text")
		}
		if m.Bytes.Empty() {
			return r.wrong(key+".bytes", "", "a formula such as 0.4GB * batch_size")
		}
		if err := r.checkFormula(w, key+".bytes", m.Bytes, true); err != nil {
			return err
		}
	}
	return nil
}

func (r profileReader) checkKnown(w Workload) error {
	batch, _ := w.ByRole(RoleBatch)
	for i, k := range w.Known {
		key := fmt.Sprintf("known.%d", i+1)
		if k.GPUMemory == 0 {
			return r.wrong(key+".gpu_memory", "", "a size such as 24GiB or 40GB")
		}
		given := false
		for _, e := range k.Values {
			v, found := w.Value(e.Value)
			n, numeric := Number(e.To)
			if !found {
				return r.wrong(key+".values."+e.Value, e.To, "values of this profile")
			}
			if v.Role != "" && !(numeric && n >= 1 && n <= maxBatch && n == math.Trunc(n)) {
				return r.wrong(key+".values."+e.Value, e.To, fmt.Sprintf("a whole number from 1 to %d", maxBatch))
			}
			given = given || e.Value == batch.Name
		}
		if !given {
			return r.wrong(key+".values", "no "+batch.Name, "values with a "+batch.Name)
		}
	}
	return nil
}

func (r profileReader) checkLadder(w Workload) error {
	for i, s := range w.Ladder {
		key := fmt.Sprintf("ladder.%d", i+1)
		if s.Title == "" {
			return r.wrong(key+".title", "", "a text")
		}
		stage, found := w.Stage(s.Stage)
		if s.Stage != "" && !found {
			return r.wrong(key+".stage", s.Stage, "the name of a stage")
		}
		for _, e := range s.Edits {
			key := key + ".edits." + e.Value
			v, found := w.Value(e.Value)
			if !found {
				return r.wrong(key, e.To, "values of this profile")
			}
			operator, n, isRelative := Relative(e.To)
			if strings.ContainsAny(e.To[:1], "/<>") && !isRelative || (operator == "/" || operator == "x") && n == 0 {
				return r.wrong(key, e.To, "a text, or /2, x2, <=512 or >=8")
			}
			start := v.Start
			if at, found := stage.Value(e.Value); found {
				start = at.Value
			}
			if _, numeric := Number(start); isRelative && !numeric {
				return r.wrong(key, e.To, "a text, because the value's start is not a number")
			}
		}
	}
	return nil
}
