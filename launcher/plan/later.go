package plan

import (
	"errors"
	"log/slog"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Later reports whether a plan that runs at a later time, as by a service, would train on a GPU. It only warns
// about conditions that may change by then, such as a full GPU. models makes the models' weights available.
func (p Planned) Later(request fit.Request, logger *slog.Logger, models func() error) (onGPU bool, err error) {
	if err := CheckTasks(p.Config.Tasks); err != nil {
		return false, err
	}
	if err := models(); err != nil {
		return false, err
	}
	plan, err := fit.New(request)
	switch {
	case errors.Is(err, fit.ErrRequest):
		return false, fail.Usage(err, "swarm plan --help")
	case err != nil:
		logger.Warn("it would not start at present", "reason", err)
		return len(request.GPUs) > 0 && request.Device != fit.DeviceCPU, nil
	}
	return plan.Device == fit.DeviceCUDA, nil
}
