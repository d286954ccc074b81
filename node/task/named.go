package task

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Named makes a task with its parameters from specs. words is the file of bf's word list, or empty.
func Named(name string, specs []configs.TaskSpec, words string) (Task, error) {
	params := map[string]any{}
	for _, s := range specs {
		if s.Name == name {
			params = s.Params
		}
	}
	if words != "" && name == "bf" {
		list, err := ReadWords(words)
		if err != nil {
			return nil, err
		}
		params = WithWords(params, list)
	}
	t, err := New(name, params)
	if errors.Is(err, ErrUnknownTask) {
		e := &configs.Error{Problem: fmt.Sprintf("unknown task %q", name), Allowed: strings.Join(Names(), ", "), Near: units.Nearest(name, Names())}
		return nil, fail.Usage(e, "swarm task list")
	}
	return t, err
}
