package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
)

// otherwise lists the differences between the command and the run that are known before planning. These are
// settings that affect training, and nodes, device and precision if the command names them. `auto` and `max` mean
// the run's values. Only this function decides, for up and sweep, whether a run matches a command.
func (r *Resume) otherwise(c configs.Config, nodes string) (list []configs.Difference, err error) {
	settings := plan.Keeping(c, r.Fixed)
	if r.Run.Imported() {
		if settings, err = withoutFolders(settings); err != nil {
			return nil, err
		}
	}
	list = configs.Changes(r.Fixed, settings)
	if asked, err := strconv.Atoi(nodes); err == nil && asked != r.Run.Nodes {
		list = append(list, configs.Difference{Key: "nodes", Class: configs.ClassExperiment, Before: strconv.Itoa(r.Run.Nodes), After: nodes})
	}
	device, _, _ := strings.Cut(c.Device, ":")
	if r.Plan.Device == "" || device == fit.DeviceCUDA && c.CPUFallback { // planning decides between GPU and CPU
		return list, nil
	}
	if device != fit.DeviceAuto && device != r.Plan.Device {
		list = append(list, hostDifference("device", r.Plan.Device, device))
	}
	if was, is := r.Precision(), c.ResolvedPrecision(r.Plan.Device == fit.DeviceCUDA); c.Precision != "auto" && was != is {
		list = append(list, hostDifference("precision", was, is))
	}
	return list, nil
}

func hostDifference(key, before, after string) configs.Difference {
	return configs.Difference{Key: key, Class: configs.ClassHost, Before: before, After: after}
}

// Precision returns the run's precision, resolved for its device.
func (r *Resume) Precision() string {
	return r.Fixed.ResolvedPrecision(r.Plan.Device == fit.DeviceCUDA)
}

// Fits rejects a plan for another device or precision than the run's, and sets the plan's threads to the run's on a
// CPU.
func (r *Resume) Fits(p *plan.Planned) error {
	if p.Plan.Device != r.Plan.Device {
		return r.Refuse(hostDifference("device", r.Plan.Device, p.Plan.Device))
	}
	cuda := p.Plan.Device == fit.DeviceCUDA
	if was, is := r.Precision(), p.Config.ResolvedPrecision(cuda); was != is {
		return r.Refuse(hostDifference("precision", was, is))
	}
	if !cuda {
		p.Plan.Threads = r.Plan.Threads // another number of threads changes the rounding of sums
	}
	return nil
}

// fewer rejects a number of rounds below what a node of the run has done.
func (r *Resume) fewer(nodes []store.Node, rounds int) error {
	ahead, most := "", rounds
	for _, n := range nodes {
		if done := r.done(n, rounds); done > most {
			ahead, most = n.Node, done
		}
	}
	if most == rounds {
		return nil
	}
	try := strconv.Itoa(most) + " or more, or --fresh for a new run"
	if r.Sweep {
		try = strconv.Itoa(most) + " or more, or another --home"
	}
	return fail.Usage(fmt.Errorf("run %s has done %s of %s already, more than --rounds %d", r.Run.Run, units.Plural(most, "round"), ahead, rounds), "--rounds "+try)
}

// SameDone applies the checks of same to a finished run. It checks only files that are available without a download.
func (r *Resume) SameDone(ctx context.Context, p plan.Planned) error {
	if p.Trainer.Command != "" {
		return r.same(p.Trainer.Inputs())
	}
	dirs := map[string]string{}
	for _, m := range p.All() {
		dir, err := model.Resolve(m, string(r.Home))
		if err != nil || r.Run.Nodes == 0 {
			inputs, err := plan.InputHashes(ctx, "", p.Config.Tasks)
			if err != nil {
				return err
			}
			return r.same(inputs)
		}
		dirs[m.Key()] = dir
	}
	inputs, err := plan.InputsOf(ctx, p, dirs)
	if err != nil {
		return err
	}
	_, err = r.SameOrFormer(ctx, p, dirs, inputs)
	return err
}

// SameOrFormer is same, but accepts an earlier program's weights of an embedded model if the run began with them,
// as up does. It returns the inputs with which the run continues.
func (r *Resume) SameOrFormer(ctx context.Context, p plan.Planned, dirs, inputs map[string]string) (map[string]string, error) {
	before, err := r.made()
	if err != nil {
		return nil, err
	}
	inputs = maps.Clone(inputs)
	if !r.Run.Imported() {
		if _, err := plan.Former(ctx, r.Home, p, maps.Clone(dirs), inputs, before.Inputs); err != nil {
			return nil, err
		}
	}
	return inputs, r.same(inputs)
}

// Refuse returns the error for a command whose settings differ from the run's.
func (r *Resume) Refuse(differences ...configs.Difference) error {
	var lines []string
	for _, d := range differences {
		lines = append(lines, d.String())
	}
	return r.differs("values", func(what string) error { return fail.List(what+" another configuration", lines) })
}

// differs returns the error for a command that differs from the run. text completes the sentence that it gets, and
// things names the values to keep.
func (r *Resume) differs(things string, text func(what string) error) error {
	what, try := fmt.Sprintf("run %s cannot continue with", r.Run.Run),
		"the original "+things+", --fresh for a new run of this experiment, or --name OTHER for another experiment"
	switch {
	case r.Run.Imported():
		what = fmt.Sprintf("imported run %s does not match this command, which has", r.Run.Run)
		try = "the same " + things + ", or another --home for these"
	case r.Sweep:
		try = "the original " + things + ", or another --home for these"
	}
	return fail.Usage(text(what), try)
}

// ForeignNodes rejects runs whose nodes this program cannot restore: those of a --node-command, and imported ones.
func ForeignNodes(run store.Run) error {
	if run.Imported() {
		return fail.Usage(fmt.Errorf("run %s was imported: its nodes' weights and journals are not here", run.Run), "swarm status "+run.Run)
	}
	var made Versions
	if err := json.Unmarshal(run.Versions, &made); err == nil && made.Inputs[plan.TrainerInput] != "" {
		return fail.Usage(fmt.Errorf("the nodes of run %s belong to a --node-command: swarm has no weights or journals of them", run.Run),
			"swarm status "+run.Run)

	}
	return nil
}
