package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// credentialsPath is where a home keeps what an invitation gave it under a name that was asked for: the name that it got may have a number after it.
func credentialsPath(home layout.Home, invitation membership.Invitation, name string) string {
	sum := sha256.Sum256([]byte(invitation.Fingerprint + "\x00" + invitation.Token + "\x00" + name))
	return home.Path("joined", hex.EncodeToString(sum[:8])+".json")
}

// enrol returns this home's credentials with a coordinator: those that it has, or new ones.
func (o *joinOptions) enrol(ctx context.Context, g *globals, invitation membership.Invitation) (membership.Credentials, error) {
	path := credentialsPath(g.home, invitation, o.name)
	var c membership.Credentials
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &c); err == nil && c.Worker != "" && c.Secret != "" {
			return c, nil
		}
		g.logger.Debug("credentials not used", "file", path, "error", err)
	}
	name := o.name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return c, fmt.Errorf("host name: %w", err)
		}
		name = workerName(name)
	}
	if c, err = natsbus.Enrol(ctx, invitation, name, natsbus.TLSOptions{CAFile: o.caFile, Credentials: o.credentials}); err != nil {
		return c, err
	}
	data, err = json.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = files.WriteSecret(path, data)
	}
	if err != nil {
		return c, g.home.Error(err)
	}
	return c, nil
}

// reach connects to the coordinator and asks what is trained.
func (o *joinOptions) reach(ctx context.Context, g *globals) (*joined, error) {
	j, err := o.connect(ctx, g)
	if err != nil {
		return nil, err
	}
	if err := j.hello(ctx, g, o.waitLimit()); err != nil {
		return nil, errors.Join(err, j.uplink.Close())
	}
	return j, nil
}

// connect waits until the coordinator is there, as long as --wait says.
func (o *joinOptions) connect(ctx context.Context, g *globals) (*joined, error) {
	j := &joined{nodeName: o.nodeID, generateOnly: o.generateOnly, process: rand.Text()}
	var err error
	if o.shared != "" {
		j.credentials.Worker = o.worker()
		folder, wrong := sharedir.Folder(o.shared, o.experiment)
		if wrong != nil {
			return nil, &configs.Error{Key: "experiment", Value: o.experiment, Allowed: "the name of an experiment", Source: "--experiment"}
		}
		j.to = event.Exchange{Kind: event.ExchangeDir, Dir: folder, Worker: j.credentials.Worker, Compat: o.compat}
		ctx, end := g.awaiting(ctx, "the experiment "+o.experiment+" in "+o.shared, o.waitLimit())
		defer end()
		j.uplink, err = sharedir.DialUplink(ctx, sharedir.UplinkOptions{
			Dir: o.shared, Experiment: o.experiment, Worker: j.credentials.Worker, Logger: g.logger,
			State: g.home.Path("joined", j.credentials.Worker+"-"+o.experiment),
		})
	} else {
		var invitation membership.Invitation
		if invitation, err = o.invitation(); err != nil {
			return nil, err
		}
		ctx, end := g.awaiting(ctx, "the coordinator at "+invitation.Address(), o.waitLimit())
		defer end()
		if j.credentials, err = o.enrol(ctx, g, invitation); err != nil {
			return nil, err
		}
		j.to = event.Exchange{
			Kind: event.ExchangeNATS, URL: invitation.URL(), Token: j.credentials.Secret, Worker: j.credentials.Worker,
			Credentials: o.credentials, CAFile: o.caFile,
		}
		j.uplink, err = natsbus.DialUplink(ctx, natsbus.UplinkOptions{
			Invitation: invitation, Credentials: j.credentials, CAFile: o.caFile, NATSCredentials: o.credentials, Logger: g.logger,
		})
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// hello asks what is trained. A former process of this worker, which was killed, counts as alive for a while.
func (j *joined) hello(ctx context.Context, g *globals, limit time.Duration) error {
	host, _ := os.Hostname()
	for again := false; ; again = true {
		var err error
		within, end := g.awaiting(ctx, "the coordinator's answer", limit)
		j.welcome, err = j.uplink.Hello(within, membership.Hello{
			Protocol: membership.Protocol, Version: version, Host: host, Time: event.Now(), Process: j.process,
		})
		end()
		var no *membership.Refusal
		if again || !errors.As(err, &no) || no.Code != membership.CodeName || no.RetryAfter <= 0 {
			return err
		}
		wait := time.Duration(no.RetryAfter * float64(time.Second))
		_, end = g.awaiting(ctx, fmt.Sprintf("a former process of worker %s to be given up, %d s", j.credentials.Worker, int(math.Ceil(no.RetryAfter))), 0)
		select {
		case <-ctx.Done():
			end()
			return context.Cause(ctx)
		case <-time.After(wait):
			end()
		}
	}
}
