package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
)

// places is a command with all its places for values.
type places struct {
	argv    []string // as typed
	program string   // path of the program
	command attempt.Template
	env     attempt.Template // NAME=text
	files   []settings.Place
	texts   []attempt.Template // one for each of files

	asked               retry.Setting
	checkpoint, offload onOff
	key                 string // hash of the command: equal keys are the same training
}

// onOff holds the values of a place with a step of the ladder on and off.
type onOff struct{ on, off string }

func parseOnOff(text string) onOff {
	on, off, _ := strings.Cut(text, "|")
	return onOff{on, off}
}

func (o onOff) of(taken bool) string {
	if taken {
		return o.on
	}
	return o.off
}

// parsePlaces parses the command line and finds the values of the first attempt.
func parsePlaces(dir string, o *Options, argv []string) (*places, error) {
	p := &places{argv: argv, checkpoint: parseOnOff(o.Checkpoint), offload: parseOnOff(o.Offload)}
	var err error
	if p.program, err = FindProgram(argv[0]); err != nil {
		return nil, err
	}
	if p.command, err = attempt.Parse(argv[1:]); err != nil {
		return nil, err
	}
	for _, entry := range o.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
			return nil, &configs.Error{Key: "env", Value: entry, Source: "--env", Allowed: "NAME=text, such as BATCH={batch_size}"}
		}
	}
	if p.env, err = attempt.Parse(o.Env); err != nil {
		return nil, fail.Usage(fmt.Errorf("--env: %w", err), "")
	}
	var texts []string
	for _, entry := range o.Set {
		place, text, err := settings.ParseSetting(entry)
		if err != nil {
			return nil, err
		}
		parsed, err := attempt.Parse([]string{text})
		if err != nil {
			return nil, fail.Usage(fmt.Errorf("--set: %w", err), "")
		}
		p.files, p.texts, texts = append(p.files, place), append(p.texts, parsed), append(texts, text)
	}
	if err := p.begin(dir, o, texts); err != nil {
		return nil, err
	}
	p.key, err = p.identity(dir, o)
	return p, err
}

// FindProgram returns a command's path, as a shell would find it.
func FindProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return "", fail.Usage(fmt.Errorf("the command %q cannot run: %w", name, errors.Unwrap(err)), "give its path, or check its spelling and that it is executable")
	}
	return filepath.Abs(path)
}

// begin finds the first batch size and accumulation: the typed value, else the current value of a file's place that
// holds nothing else.
func (p *places) begin(dir string, o *Options, texts []string) error {
	p.asked = retry.Setting{BatchSize: o.BatchSize, Accumulate: o.Accumulate}
	for i, text := range texts {
		found, err := p.present(dir, i)
		if err != nil {
			return err
		}
		var number *int
		switch {
		case text == "{"+attempt.BatchSize+"}" && !o.Given["batch-size"]:
			number = &p.asked.BatchSize
		case text == "{"+attempt.Accumulate+"}" && !o.Given["accumulate"]:
			number = &p.asked.Accumulate
		default:
			continue
		}
		if *number, err = strconv.Atoi(found.Text); err != nil || *number < 1 {
			return &configs.Error{Key: p.files[i].String(), Value: found.Text, Source: "--set", Allowed: "a whole number from 1"}
		}
	}
	hasBatch := p.has(attempt.BatchSize)
	switch {
	case p.asked.BatchSize == 0 && (hasBatch || p.has(attempt.EffectiveBatch)):
		return fail.Usage(errors.New("the command uses {batch_size}, but no initial value is given"), "--batch-size 32")
	case !hasBatch && (o.Given["batch-size"] || o.Given["min-batch-size"]):
		return fail.Usage(errors.New("the command does not use {batch_size}"),
			"training.batch_size={batch_size} in its arguments, --env NAME={batch_size}, or --set FILE:KEY={batch_size}")

	case o.Given["accumulate"] && !p.has(attempt.Accumulate):
		return fail.Usage(errors.New("the command does not use {accumulate}"), "{accumulate} in its arguments, --env or --set")
	case hasBatch && p.asked.BatchSize < o.MinBatchSize && o.Given["min-batch-size"]:
		return &configs.Error{Key: "min-batch-size", Value: fmt.Sprint(o.MinBatchSize), Source: "--min-batch-size",
			Allowed: fmt.Sprintf("at most the initial batch size, %d", p.asked.BatchSize)}
	}
	return nil
}

// present returns the current value at a place, or at the first place if the entry matches several. It returns an
// error if any of them is missing.
func (p *places) present(dir string, i int) (first settings.Value, err error) {
	expanded, err := settings.Expand(dir, p.files[i])
	if err != nil {
		return first, err
	}
	for k, place := range expanded {
		found, err := settings.Get(dir, place)
		if err != nil {
			return first, err
		}
		if k == 0 {
			first = found
		}
	}
	return first, nil
}

// has reports whether the command has a place for a value.
func (p *places) has(value string) bool {
	return p.command.Has(value) || p.env.Has(value) ||
		slices.ContainsFunc(p.texts, func(t attempt.Template) bool { return t.Has(value) })
}

// policy returns the steps that are allowed after a memory shortage.
func (p *places) policy(o *Options) retry.Policy {
	return retry.Policy{
		MinBatchSize: o.MinBatchSize, MaxRetries: o.MaxRetries,
		CanBatch: p.has(attempt.BatchSize), CanAccumulate: p.has(attempt.Accumulate), CanCheckpoint: p.has(attempt.GradientCheckpointing), CanOffload: p.has(attempt.Offload),
		OtherGPU: o.GPU == "" && o.CPU != CPUOnly, CPU: o.CPU == CPUFallback,
	}
}

// identity returns a hash of the typed command line and its directory. It excludes the first values.
func (p *places) identity(dir string, o *Options) (string, error) {
	text, err := json.Marshal([]any{p.argv, o.Env, o.Set, dir})
	if err != nil {
		return "", fmt.Errorf("name the command: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// values returns the values of the places in an attempt.
func (p *places) values(s retry.Setting, index int) map[string]string {
	values := map[string]string{
		attempt.BatchSize: strconv.Itoa(s.BatchSize), attempt.Accumulate: strconv.Itoa(max(1, s.Accumulate)), attempt.EffectiveBatch: strconv.Itoa(s.Effective()),
		attempt.GradientCheckpointing: p.checkpoint.of(s.GradientCheckpointing), attempt.Offload: p.offload.of(s.Offload),
		attempt.DevicePlace: "cuda", attempt.GPUPlace: strconv.Itoa(index),
	}
	if s.OnCPU {
		values[attempt.DevicePlace], values[attempt.GPUPlace] = "cpu", ""
	}
	for name := range values {
		if !p.has(name) {
			delete(values, name) // record only values that the command receives
		}
	}
	return values
}

// changes returns the new values of the files' places.
func (p *places) changes(values map[string]string) ([]settings.Change, error) {
	var list []settings.Change
	for i, place := range p.files {
		text, err := p.texts[i].Expand(values)
		if err != nil {
			return nil, err
		}
		list = append(list, settings.Change{Place: place, To: strings.Join(text, "")}) // empty if all of the text is optional
	}
	return list, nil
}
