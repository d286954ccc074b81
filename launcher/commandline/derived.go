package commandline

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// derivedCommand derives the command that continues a run from its configuration. It is for runs of an older swarm,
// which recorded no command.
func derivedCommand(run store.Run, dir string, sources Sources) (*store.Command, error) {
	if _, err := os.Stat(workers.OutboxDir(dir)); err == nil {
		return nil, fail.Usage(fmt.Errorf("run %s is this host's part of another host's run, and its command is not recorded", run.Run),
			"the same swarm join command again")

	}
	c := configs.Default()
	if err := json.Unmarshal(run.Config, &c); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", run.Run, err)
	}
	base := []string(nil)
	if c.Preset != "" {
		base = []string{c.Preset}
	}
	flags, err := settingFlags(base, c, nil, sources)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("the command that began %s is not recorded: %w", run.Run, err), "the same swarm up command again")
	}
	args := []string{"up"}
	if c.Preset != "" {
		args = append(args, "--config", c.Preset)
	}
	args = append(append(args, "--name", run.Experiment, "--nodes", strconv.Itoa(run.Nodes)), flags...)
	return &store.Command{Arguments: args}, nil
}

// Sources returns what a configuration is made of besides its flags, for an environment and a host with or without
// CUDA.
type Sources func(environ []string, hasCUDA bool) resolve.Sources

// settingFlags returns the flags that turn the configuration named by --config (presets and files) into want. It
// leaves out the keys in leaveOut, the name, and settings that only save memory. It fails for tasks from a file,
// which flags cannot express.
func settingFlags(config []string, want configs.Config, leaveOut []string, sources Sources) ([]string, error) {
	given := resolve.Flags{Config: config}
	model, err := configs.FindKey("model")
	if err != nil {
		return nil, err
	}
	var flags []string
	if want.Models == "" && want.Model != "" {
		given.Keys = append(given.Keys, &resolve.KeyFlag{Key: model, Source: "--model", Text: want.Model, Given: true})
		flags = append(flags, "--model", want.Model)
	}
	base, _, _, err := sources(nil, want.Models == "" && want.Model == "").Swarm(&given)
	if err != nil {
		return nil, err
	}
	before, after := configs.Values(base), configs.Values(want)
	own := map[string]bool{"model": want.Models == "", "experiment": true, "preset": true, "micro_batch": true}
	for _, key := range leaveOut {
		own[key] = true
	}
	for _, key := range configs.AllKeys() {
		value, ok := after[key.Name]
		if !ok || own[key.Name] || before[key.Name] == value {
			continue
		}
		text := fmt.Sprint(value)
		if text == "" {
			continue // no flag can clear a value
		}
		if text == "true" {
			flags = append(flags, "--"+key.FlagName())
			continue
		}
		if text == "false" || strings.HasPrefix(text, "-") {
			flags = append(flags, "--"+key.FlagName()+"="+text)
			continue
		}
		flags = append(flags, "--"+key.FlagName(), text)
	}
	for _, d := range configs.Differences(base, want) {
		if want.Tasks.File == "" && want.Tasks.Set == base.Tasks.Set && strings.HasPrefix(d.Key, configs.MixtureKey) {
			return flags, errors.New("its tasks come from a file whose name is not recorded")
		}
	}
	return flags, nil
}
