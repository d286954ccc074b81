package workers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// CredentialsPath returns the path of the credentials that an invitation gave this home for a requested name. The
// assigned name may have a number appended.
func CredentialsPath(home layout.Home, invitation membership.Invitation, name string) string {
	sum := sha256.Sum256([]byte(invitation.Fingerprint + "\x00" + invitation.Token + "\x00" + name))
	return home.Path("joined", hex.EncodeToString(sum[:8])+".json")
}

// enrol returns this home's credentials with a coordinator. It requests new ones if there are none.
func (o ConnectOptions) enrol(ctx context.Context) (membership.Credentials, error) {
	path := CredentialsPath(o.Home, o.Invitation, o.Name)
	var c membership.Credentials
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &c); err == nil && c.Worker != "" && c.Secret != "" {
			return c, nil
		}
		o.Logger.Debug("credentials not used", "file", path, "error", err)
	}
	name := o.Name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return c, fmt.Errorf("host name: %w", err)
		}
		name = Name(name)
	}
	if c, err = natsbus.Enrol(ctx, o.Invitation, name, natsbus.TLSOptions{
		CAFile: o.CAFile, Credentials: o.Credentials,
		Busy: func() {
			o.Logger.Info("the coordinator has its maximum of new connections: trying again")
		},
	}); err != nil {
		return c, err
	}
	data, err = json.Marshal(c)
	if err == nil {
		err = files.MakeFolder(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = files.WriteSecret(path, data)
	}
	if err != nil {
		return c, o.Home.Error(err)
	}
	return c, nil
}

// ConnectOptions name the swarm to join and the worker's identity.
type ConnectOptions struct {
	Invitation          membership.Invitation // over a network
	CAFile, Credentials string                // files: CA of the coordinator's certificate; credentials of a NATS cluster

	Shared, Experiment string // through a folder
	Compat             bool   // also write files that rl-swarm's nodes read

	Name         string // requested name of the worker; empty: the host's name
	NodeID       string // name of its node; of several nodes, their prefix
	GenerateOnly bool
	Wait         time.Duration // for the coordinator; 0: no limit

	Home    layout.Home
	Version string // of this program
	Stderr  io.Writer
	Logger  *slog.Logger
}

// Connect connects to the coordinator and asks what the swarm trains. A rejection is a *membership.Refusal.
func Connect(ctx context.Context, o ConnectOptions) (*Worker, error) {
	w, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.hello(ctx, o); err != nil {
		return nil, errors.Join(err, w.uplink.Close())
	}
	return w, nil
}

// connect waits for the coordinator, at most the time of --wait.
func (o ConnectOptions) connect(ctx context.Context) (*Worker, error) {
	w := &Worker{nodeName: o.NodeID, generateOnly: o.GenerateOnly, process: rand.Text()}
	var err error
	if o.Shared != "" {
		w.credentials.Worker = o.worker()
		folder, wrong := sharedir.Folder(o.Shared, o.Experiment)
		if wrong != nil {
			return nil, &configs.Error{Key: "experiment", Value: o.Experiment, Allowed: "the name of an experiment", Source: "--experiment"}
		}
		w.to = protocol.Exchange{Kind: protocol.ExchangeDir, Dir: folder, Worker: w.credentials.Worker, Compat: o.Compat}
		ctx, end := awaiting(ctx, o.Stderr, "the experiment "+o.Experiment+" in "+o.Shared, o.Wait)
		defer end()
		w.uplink, err = sharedir.DialUplink(ctx, sharedir.UplinkOptions{
			Dir: o.Shared, Experiment: o.Experiment, Worker: w.credentials.Worker, Logger: o.Logger,
			State: o.Home.Path("joined", w.credentials.Worker+"-"+o.Experiment),
		})
	} else {
		ctx, end := awaiting(ctx, o.Stderr, "the coordinator at "+o.Invitation.Address(), o.Wait)
		defer end()
		if w.credentials, err = o.enrol(ctx); err != nil {
			return nil, err
		}
		w.to = protocol.Exchange{
			Kind: protocol.ExchangeNATS, URL: o.Invitation.URL(), Token: w.credentials.Secret, Worker: w.credentials.Worker,
			Credentials: o.Credentials, CAFile: o.CAFile,
		}
		w.uplink, err = natsbus.DialUplink(ctx, natsbus.UplinkOptions{
			Invitation: o.Invitation, Credentials: w.credentials, CAFile: o.CAFile, NATSCredentials: o.Credentials, Logger: o.Logger,
		})
	}
	if err != nil {
		return nil, err
	}
	experiment := ""
	if o.Shared != "" { // an invitation does not name an experiment
		experiment = o.Experiment
	}
	w.uplink = membership.Checked(w.uplink, w.credentials.Worker, experiment)
	return w, nil
}

// hello asks what the swarm trains. A killed earlier process of this worker counts as alive for a while, so hello
// waits and retries once.
func (w *Worker) hello(ctx context.Context, o ConnectOptions) error {
	host, _ := os.Hostname()
	for again := false; ; again = true {
		var err error
		within, end := awaiting(ctx, o.Stderr, "the coordinator's answer", o.Wait)
		w.welcome, err = w.uplink.Hello(within, membership.Hello{
			Protocol: membership.Protocol, Version: o.Version, Host: host, Time: event.Now(), Process: w.process,
		})
		end()
		var no *membership.Refusal
		if again || !errors.As(err, &no) || no.Code != membership.CodeName || no.RetryAfter <= 0 {
			return err
		}
		wait := units.Seconds(no.RetryAfter)
		if o.Wait > 0 {
			wait = min(wait, o.Wait)
		}
		_, end = awaiting(ctx, o.Stderr, fmt.Sprintf("the timeout of worker %s's earlier process, %d s", w.credentials.Worker, int(math.Ceil(wait.Seconds()))), 0)
		select {
		case <-ctx.Done():
			end()
			return context.Cause(ctx)
		case <-time.After(wait):
			end()
		}
	}
}

// worker returns this worker's default name.
func (o ConnectOptions) worker() string {
	for _, name := range []string{o.Name, o.NodeID} {
		if name != "" {
			return Name(name)
		}
	}
	host, _ := os.Hostname()
	return Name(host)
}

// Name converts any text to a worker's name. It keeps letters, digits, _ and -.
func Name(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, strings.TrimSpace(text))
	name = strings.Trim(name[:min(len(name), membership.MaxNameBytes-8)], "-") // leave space for a number
	if name == "" {
		return "worker"
	}
	return name
}

// Welcome returns the coordinator's answer, which describes what the swarm trains.
func (w *Worker) Welcome() membership.Welcome { return w.welcome }
