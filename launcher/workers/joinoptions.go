package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Default times to wait for the coordinator. Through a folder, each answer needs a synchronization.
const (
	DefaultWait = time.Minute
	FolderWait  = 10 * time.Minute
)

// JoinOptions are the options of swarm join: the swarm, the transport and the worker's identity.
type JoinOptions struct {
	URL, URLFile string // an invitation, or a file with one
	Name         string
	CAFile       string
	Credentials  string // credentials file of a NATS cluster
	Shared       string
	SharedTyped  bool // --shared was set, possibly to ""
	Predecessor  bool // Shared comes from GDRIVE_PATH
	Experiment   string
	NodeID       string
	Compat       bool
	GenerateOnly bool
	Wait         time.Duration // for the coordinator; 0: no limit
	WaitTyped    bool

	IgnoreRLSwarm bool     // ignore rl-swarm's variables
	FromRLSwarm   []string // rl-swarm's variables that took effect
}

// ReadRLSwarm uses rl-swarm's variables for settings without a flag, and records which took effect.
func (o *JoinOptions) ReadRLSwarm(typed func(flag string) bool, getenv func(string) string) {
	if o.IgnoreRLSwarm {
		return
	}
	for _, v := range []struct {
		flag, variable string
		into           *string
	}{{"experiment", "EXPERIMENT_NAME", &o.Experiment}, {"node-id", "NODE_ID", &o.NodeID}} {
		if text := getenv(v.variable); text != "" && !typed(v.flag) {
			*v.into = text
			o.FromRLSwarm = append(o.FromRLSwarm, v.variable)
		}
	}
}

// Check rejects conflicting options. rl-swarm's variables select the folder if nothing else selects a transport.
func (o *JoinOptions) Check() error {
	invited := o.URL != "" || o.URLFile != ""
	if !invited && !o.SharedTyped && os.Getenv(resolve.InvitationVariable) == "" && !o.IgnoreRLSwarm {
		o.Shared = predecessorsFolder(RoleWorker)
		o.Predecessor = o.Shared != ""
	}
	switch {
	case o.Shared != "" && invited:
		return fail.Usage(errors.New("an invitation and --shared exclude each other"), "one of them")
	case o.Shared == "" && o.Compat:
		return fail.Usage(errors.New("--compat needs --shared"), "--shared DIR")
	case o.Shared != "" && o.Experiment == "":
		return fail.Usage(errors.New("--shared needs the experiment's name"), "--experiment NAME, a folder in "+o.Shared)
	}
	if o.Shared == "" {
		return nil
	}
	var err error
	o.Shared, err = sharedFolder(o.Shared, o.Predecessor)
	return err
}

// Invitation returns the invitation from the argument, the file or the environment.
func (o *JoinOptions) Invitation() (membership.Invitation, error) {
	text, source := o.URL, "the argument"
	switch {
	case text != "":
	case o.URLFile != "":
		data, err := files.ReadBounded(o.URLFile, configs.MaxDocument)
		if err != nil {
			return membership.Invitation{}, fail.Usage(fmt.Errorf("--url-file: %w", err), "a file with the command that swarm up --listen printed")
		}
		text, source = string(data), o.URLFile
	default:
		text, source = os.Getenv(resolve.InvitationVariable), "$"+resolve.InvitationVariable
	}
	text = strings.TrimSpace(text)
	if text == "" {
		try := "the command that `swarm up --listen` printed, or --shared DIR"
		if os.Getenv(resolve.FolderVariable) != "" && !o.SharedTyped && !o.IgnoreRLSwarm {
			try += ", or " + resolve.RoleVariable + "=" + RoleWorker + ", with which " + resolve.FolderVariable + " counts"
		}
		return membership.Invitation{}, fail.Usage(errors.New("join needs an invitation"), try)
	}
	invitation, err := membership.ParseInvitation(text)
	if err != nil {
		return invitation, fail.Usage(fmt.Errorf("%s is not an invitation: %w", source, err), "the whole line in quotes, including the part after #")
	}
	return invitation, nil
}

// CheckWait rejects a negative --wait.
func (o *JoinOptions) CheckWait() error {
	if o.Wait < 0 {
		return &configs.Error{Key: "wait", Value: o.Wait.String(), Source: "--wait", Allowed: "a time such as 60s or 10m, or 0 to wait without a limit"}
	}
	return nil
}

// waitLimit returns how long to wait for the coordinator; 0: no limit.
func (o *JoinOptions) waitLimit() time.Duration {
	if o.Shared != "" && !o.WaitTyped {
		return FolderWait
	}
	return o.Wait
}

// Connect connects to the coordinator. version is that of this program.
func (o *JoinOptions) Connect(ctx context.Context, home layout.Home, version string, stderr io.Writer, logger *slog.Logger) (*Worker, error) {
	to := ConnectOptions{
		CAFile: o.CAFile, Credentials: o.Credentials, Shared: o.Shared, Experiment: o.Experiment, Compat: o.Compat,
		Name: o.Name, NodeID: o.NodeID, GenerateOnly: o.GenerateOnly, Wait: o.waitLimit(),
		Home: home, Version: version, Stderr: stderr, Logger: logger,
	}
	if o.Shared == "" {
		var err error
		if to.Invitation, err = o.Invitation(); err != nil {
			return nil, err
		}
	}
	return Connect(ctx, to)
}

// JoinedBase returns the coordinator's configuration as the base for this host's.
func JoinedBase(c configs.Config, name string) resolve.Layer {
	c.Experiment, c.Device, c.MicroBatch = name, "auto", 0
	c.Models, c.Members = "", nil        // a worker's nodes have one model, by default the coordinator's first
	c.Tasks.File, c.Tasks.Words = "", "" // paths on another host
	l := resolve.Layer{Values: configs.Values(c), Sources: map[string]string{}, Mixture: c.Tasks.Mixture}
	for key, value := range l.Values {
		l.Sources[key] = "the coordinator's configuration"
		if reflect.ValueOf(value).IsZero() && strings.HasPrefix(key, "tasks.") {
			delete(l.Values, key)
		}
	}
	return l
}

// NeedsFiles requires flags for the files that the swarm's questions need.
func (w *Worker) NeedsFiles(flags *resolve.Flags) error {
	given, err := flags.Layer()
	if err != nil {
		return err
	}
	for _, key := range QuestionFiles {
		if w.Welcome().Inputs[key] != "" && given.Values[key] == nil {
			flag := "--" + strings.ReplaceAll(key, ".", "-")
			return fail.Usage(fmt.Errorf("the swarm's questions need a file on this host: %s is missing", flag), flag+" FILE, a copy of the coordinator's")
		}
	}
	return nil
}

// TellLocalModel warns if this host is about to load a model from a folder whose name comes from the coordinator
// and not from a flag. This host's folder of that name may contain anything.
func (w *Worker) TellLocalModel(flags *resolve.Flags, logger *slog.Logger) error {
	given, err := flags.Layer()
	if err != nil {
		return err
	}
	c, err := w.Config()
	if err != nil || given.Values["model"] != nil || !localModel(c.Model) {
		return err
	}
	folder, err := filepath.Abs(c.Model)
	if err != nil {
		return fmt.Errorf("model %s: %w", c.Model, err)
	}
	logger.Warn("the coordinator's model is a folder: this host loads its own folder of that name. --model chooses another model",
		"folder", folder)
	return nil
}

// localModel reports whether a name means a folder on this host, as node/model interprets it.
func localModel(name string) bool {
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "/") {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
