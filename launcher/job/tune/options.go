package tune

import (
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Options are the user's options of swarm tune.
type Options struct {
	Workload  string // a profile's name or YAML file; empty: guess it from the folder
	List      bool
	Auto      bool   // use this host's GPU
	GPUMemory string // a size; GB as in the profile
	GPU       int    // index
	Target    int    // effective batch
	Margin    float64
	Devices   int
	Sets      []string // NAME=NUMBER
	Dir       string   // the training's folder

	Profile bool // measure the command
	Seconds int  // longest duration of one measured run
	Command []string

	Apply, DryRun, Undo, Force bool

	Given map[string]bool // typed flags, out of gpu-memory, gpu, target-effective-batch, safety-margin, devices and profile-seconds
}

// Session is a recommendation's connection to the process that makes it.
type Session struct {
	Home        layout.Home
	Logger      *slog.Logger
	Stderr      io.Writer // for progress, warnings and the output of measured commands
	Environ     []string
	Sources     resolve.Sources                   // of our own nodes' configuration
	FitSettings func(configs.Config) fit.Settings // returns the settings that determine a node's memory
}

// Check returns an error for options that contradict each other or are out of range.
func (o *Options) Check() error {
	chosen := 0
	for _, flag := range []bool{o.Apply, o.DryRun, o.Undo, o.List} {
		if flag {
			chosen++
		}
	}
	usage := func(text, try string) error { return fail.Usage(errors.New(text), try) }
	switch {
	case chosen > 1:
		return usage("--apply, --dry-run, --undo and --list exclude each other", "one of them at a time")
	case o.Undo || o.List:
		return nil
	case o.Auto && o.Given["gpu-memory"]:
		return usage("--auto and --gpu-memory contradict each other", "one of them")
	case !o.Auto && !o.Given["gpu-memory"]:
		return usage("the GPU is unknown: neither --auto nor --gpu-memory is given", "swarm tune --auto, or --gpu-memory 24")
	case o.Given["gpu"] && !o.Auto:
		return usage("--gpu selects one of this host's GPUs and needs --auto", "swarm tune --auto with --gpu")
	case o.Given["target-effective-batch"] && (o.Target < 1 || o.Target > 1<<22):
		return &configs.Error{Key: "target-effective-batch", Value: strconv.Itoa(o.Target), Allowed: "a whole number from 1 to 4194304"}
	case o.Given["safety-margin"] && !(o.Margin >= 0.05 && o.Margin <= 1):
		return &configs.Error{Key: "safety-margin", Value: strconv.FormatFloat(o.Margin, 'g', -1, 64), Allowed: "a number from 0.05 to 1"}
	case o.Given["devices"] && (o.Devices < 1 || o.Devices > 1024):
		return &configs.Error{Key: "devices", Value: strconv.Itoa(o.Devices), Allowed: "a whole number from 1 to 1024"}
	case !o.Profile && len(o.Command) > 0:
		return usage("a command runs only with --profile", "--profile, or swarm run")
	case o.Profile && len(o.Command) == 0:
		return usage("--profile needs the command to measure", "swarm tune --auto --profile -- python train.py --batch-size {batch_size}")
	case o.Profile && (o.Seconds < 1 || o.Seconds > 3600):
		return &configs.Error{Key: "profile-seconds", Value: strconv.Itoa(o.Seconds), Allowed: "a whole number from 1 to 3600"}
	}
	return nil
}

// fixed parses --set.
func (o *Options) fixed(w configs.Workload) (map[string]float64, error) {
	fixed := map[string]float64{}
	for _, text := range o.Sets {
		name, value, _ := strings.Cut(text, "=")
		v, known := w.Value(name)
		n, numeric := configs.Number(value)
		switch {
		case !known:
			var names []string
			for _, v := range w.Values {
				names = append(names, v.Name)
			}
			return nil, &configs.Error{Key: "set", Value: text, Allowed: "NAME=NUMBER with a value of " + w.Name + ": " + strings.Join(names, ", ")}
		case !numeric || n < 0 || v.Role != "" && !(n >= 1 && n <= 1<<16 && n == float64(int(n))):
			return nil, &configs.Error{Key: "set", Value: text, Allowed: "NAME=NUMBER; a batch or accumulation is a whole number from 1 to 65536"}
		}
		fixed[name] = n
	}
	return fixed, nil
}
