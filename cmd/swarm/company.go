package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/atomicfile"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// companyFlags are up's ways for other hosts to join.
type companyFlags struct {
	listen, advertise string
	cert, key         string
	nats, credentials string
	shared            string
	compat            bool
}

func (f *companyFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "", "let others join over the network: `address` to listen on with TLS, such as :4222; prints the line they type")
	fs.StringVar(&f.advertise, "advertise", "", "`host` or host:port, or several with commas, by which others reach this host (default: its addresses)")
	fs.StringVar(&f.cert, "tls-cert", "", "`file` of a certificate of one's own for --listen (default: a self-signed one, pinned by its fingerprint)")
	fs.StringVar(&f.key, "tls-key", "", "`file` of its private key")
	fs.StringVar(&f.nats, "nats", "", "carry the swarm over a NATS cluster instead of an own server: `URL`s with commas")
	fs.StringVar(&f.credentials, "nats-creds", "", "credentials `file` for --nats")
	fs.StringVar(&f.shared, "shared", os.Getenv("GDRIVE_PATH"), "carry the swarm through a synced `folder` such as a mounted Google Drive (GDRIVE_PATH)")
	fs.BoolVar(&f.compat, "compat", false, "with --shared: also write the files that the predecessor's nodes read")
}

// natsPort is where NATS listens by convention.
const natsPort = "4222"

// check refuses what can't go together. It is nil, nil where nobody is let in.
func (f *companyFlags) company() (*company, error) {
	given := slices.DeleteFunc([]string{f.listen, f.nats, f.shared}, func(s string) bool { return s == "" })
	switch {
	case len(given) > 1:
		return nil, &usageError{errors.New("--listen, --nats and --shared are three ways to carry one swarm"), "one of them"}
	case (f.advertise != "" || f.cert != "" || f.key != "") && f.listen == "":
		return nil, &usageError{errors.New("--advertise, --tls-cert and --tls-key are for --listen"), "--listen :" + natsPort}
	case (f.cert == "") != (f.key == ""):
		return nil, &usageError{errors.New("--tls-cert and --tls-key go together"), "both, or neither for a self-signed certificate"}
	case f.credentials != "" && f.nats == "":
		return nil, &usageError{errors.New("--nats-creds is for --nats"), "--nats URL"}
	case f.compat && f.shared == "":
		return nil, &usageError{errors.New("--compat is for --shared"), "--shared DIR"}
	case len(given) == 0:
		return nil, nil
	}
	if f.listen != "" {
		host, port, err := net.SplitHostPort(f.listen)
		if err != nil {
			host, port = strings.Trim(f.listen, "[]"), natsPort
		}
		if number, err := net.LookupPort("tcp", port); err != nil || strings.ContainsAny(host, "/ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return nil, &configs.Error{Key: "listen", Value: f.listen, Source: "--listen", Allowed: "host:port, :port or host"}
		} else if number == 0 {
			port = "0"
		}
		f.listen = net.JoinHostPort(host, port)
	}
	if f.shared != "" {
		dir, err := filepath.Abs(f.shared)
		if err != nil {
			return nil, fmt.Errorf("--shared: %w", err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, &configs.Error{Key: "shared", Value: f.shared, Source: "--shared", Allowed: "a folder that is there: mount it first"}
		}
		f.shared = dir
	}
	return &company{flags: *f}, nil
}

// company lets other hosts' nodes into a run: it says who may, and what becomes of what they send.
type company struct {
	flags      companyFlags
	registry   *membership.Registry // nil with a folder, whose own access decides
	reception  *membership.Reception
	way        hostWay
	invitation string      // the command to type elsewhere
	done       atomic.Bool // a worker's node has done all its rounds
}

// invitationPath is where a home keeps the line that was last handed out. Its folder is the owner's alone.
func invitationPath(g *globals) string { return filepath.Join(g.workersDir(), "invitation") }

// readInvitation is that line.
func readInvitation(g *globals) (membership.Invitation, error) {
	text, err := os.ReadFile(invitationPath(g))
	if err != nil {
		return membership.Invitation{}, &usageError{fmt.Errorf("no invitation is known under %s: no swarm has been open to others", g.home), "swarm up --listen :" + natsPort}
	}
	return membership.ParseInvitation(string(text))
}

// workersDir is where a home keeps whom it has let in.
func (g *globals) workersDir() string { return filepath.Join(g.home, "workers") }

// open opens the way that workers share.
func (f *company) open(ctx context.Context, c *coordinator) (way, error) {
	if f.flags.shared != "" {
		dir, err := sharedir.Folder(f.flags.shared, c.p.config.Experiment)
		if err != nil {
			return nil, err
		}
		f.way = &folderWay{dir: dir, run: c.run, compat: f.flags.compat}
		f.invitation = fmt.Sprintf("swarm join --shared DIR --experiment %s   (DIR: where that host has %s)", c.p.config.Experiment, filepath.Dir(dir))
		return f.way, nil
	}
	var err error
	if f.registry, err = membership.OpenRegistry(c.g.workersDir()); err != nil {
		return nil, err
	}
	token, err := f.registry.Invite("", false)
	if err != nil {
		return nil, err
	}
	invitation := membership.Invitation{Scheme: "nats", Token: token}
	var options natsbus.ServerOptions
	if f.flags.nats != "" {
		options.External, options.Credentials = strings.Split(f.flags.nats, ","), f.flags.credentials
		for _, url := range options.External {
			_, host, found := strings.Cut(strings.TrimSpace(url), "://")
			if !found {
				host = url
			}
			_, host, found = strings.Cut("@"+host, "@")
			if at := strings.LastIndex(host, "@"); found && at >= 0 {
				host = host[at+1:] // a password is not handed out
			}
			invitation.Hosts = append(invitation.Hosts, host)
		}
	} else {
		hosts := advertised(f.flags.listen, f.flags.advertise)
		certificate, fingerprint, err := f.certificate(c.g, hosts)
		if err != nil {
			return nil, err
		}
		invitation.Scheme, invitation.Fingerprint = "tls", fingerprint
		options.Listen, options.Admit = f.flags.listen, f.registry.Check
		options.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
		invitation.Hosts = hosts
	}
	bus, err := openBus(ctx, c, options)
	if err != nil {
		return nil, err
	}
	if f.flags.listen != "" {
		if address, ok := bus.server.Addr().(*net.TCPAddr); ok {
			for i, host := range invitation.Hosts {
				if _, _, err := net.SplitHostPort(host); err != nil {
					invitation.Hosts[i] = net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(address.Port))
				}
			}
		}
	}
	f.way, f.invitation = bus, "swarm join '"+invitation.String()+"'"
	if f.flags.credentials != "" {
		f.invitation += " --nats-creds FILE"
	}
	if err := atomicfile.Write(invitationPath(c.g), []byte(invitation.String()+"\n")); err != nil {
		bus.close()
		return nil, homeError(c.g.home, err)
	}
	return bus, nil
}

// certificate is the user's own, without a fingerprint: then the name is what counts; or one that this home keeps.
func (f *company) certificate(g *globals, hosts []string) (tls.Certificate, string, error) {
	if f.flags.cert == "" {
		return natsbus.Certificate(g.workersDir(), hosts)
	}
	certificate, err := tls.LoadX509KeyPair(f.flags.cert, f.flags.key)
	if err != nil {
		return certificate, "", &usageError{fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.flags.cert, f.flags.key, err), "PEM files of a certificate chain and its key"}
	}
	return certificate, "", nil
}

// advertised are the hosts by which others reach this one: as told, as listened on, or its addresses that aren't loopback, those of the default
// route first as far as the kernel's order tells.
func advertised(listen, told string) []string {
	if told != "" {
		return strings.Split(told, ",")
	}
	host, _, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{host}
	}
	var hosts []string
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			hosts = append(hosts, network.IP.String())
		}
	}
	if hosts == nil {
		hosts = []string{"127.0.0.1"}
	}
	return hosts
}

// receive opens the reception, once the run is recorded and its events are taken.
func (f *company) receive(ctx context.Context, c *coordinator, events *recorder, logger *slog.Logger) error {
	known, err := c.reader.Members(ctx, c.run)
	if err != nil {
		return err
	}
	var before []membership.KnownMember
	for _, m := range known {
		if m.Worker != "" {
			before = append(before, membership.KnownMember{Node: m.Node, Worker: m.Worker, From: m.From})
		}
	}
	f.reception, err = membership.NewReception(membership.ReceptionOptions{
		Run: c.run, Experiment: c.p.config.Experiment, Version: version, Config: c.config, Cfg: c.p.config, Inputs: c.inputs,
		Local: event.Members(c.nodeIDs...), Rounds: c.p.config.Rounds, Registry: f.registry, Trusted: f.registry == nil,
		Store: f.way.store,
		Deliver: func(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error {
			return events.deliver(ctx, worker, d, list)
		},
		Acked: func(ctx context.Context, worker, outbox string) (int64, error) {
			return c.reader.Delivered(ctx, c.run, worker, outbox)
		},
		Recorded: func(ctx context.Context) (map[string]int, map[string][]int, error) {
			recorded, err := c.reader.Recorded(ctx, c.run)
			if err != nil {
				return nil, nil, err
			}
			evaluated, err := c.reader.Evaluated(ctx, c.run)
			return recorded, evaluated, err
		},
		Tell: events.take, Expel: f.expel, Now: time.Now, Logger: logger,
	}, before)
	if err != nil {
		return err
	}
	if folder, ok := f.way.(*folderWay); ok {
		return sharedir.Announce(folder.dir, membership.Welcome{
			Protocol: membership.Protocol, Run: c.run, Experiment: c.p.config.Experiment, Config: c.config, Inputs: c.inputs,
			Version: version, Time: event.Now(),
		})
	}
	return nil
}

// expel ends the connections of a worker that may not be here any more.
func (f *company) expel(worker string) {
	if bus, ok := f.way.(*busWay); ok {
		bus.server.Disconnect(worker)
	}
}

// serve answers workers until ctx ends.
func (f *company) serve(ctx context.Context, c *coordinator, events *recorder, logger *slog.Logger) {
	events.group.Go(func() { f.reception.Serve(ctx) })
	events.group.Go(func() {
		if err := f.way.serve(ctx, f.reception); err != nil && ctx.Err() == nil {
			events.warn("nobody can join any more, and workers are not heard: " + err.Error())
		}
	})
	events.group.Go(func() { f.book(ctx, c, logger) })
	if folder, ok := f.way.(*folderWay); ok {
		events.group.Go(func() { f.snapshots(ctx, c, folder, logger) })
		events.group.Go(func() { f.foreigners(ctx, folder, logger) })
	}
}

// bookInterval is how often the database hears how workers fare.
const bookInterval = 5 * time.Second

// book records how workers fare, until ctx ends.
func (f *company) book(ctx context.Context, c *coordinator, logger *slog.Logger) {
	ticker := time.NewTicker(bookInterval)
	defer ticker.Stop()
	for {
		f.bookOnce(context.WithoutCancel(ctx), c, logger)
		select {
		case <-ctx.Done():
			f.bookOnce(context.WithoutCancel(ctx), c, logger)
			return
		case <-ticker.C:
		}
	}
}

func (f *company) bookOnce(ctx context.Context, c *coordinator, logger *slog.Logger) {
	var workers []store.Worker
	for _, w := range f.reception.Workers() {
		workers = append(workers, store.Worker{
			Worker: w.Worker, Host: w.Host, Device: w.Device, Version: w.Version, State: w.State, LastSeen: w.LastSeen, Nodes: len(w.Nodes),
			Offered: w.Offered, Refused: w.Refused, Bytes: w.Bytes, Reason: w.Reason,
		})
	}
	if workers == nil {
		return
	}
	if err := c.store.SaveWorker(ctx, c.run, workers...); err != nil {
		logger.Warn("workers' states were not recorded", "error", err)
	}
}

// snapshotInterval is how often a copy of the database goes into a shared folder.
const snapshotInterval = 10 * time.Minute

// snapshots copies the database into the shared folder, now and then and at the end: the live one stays here.
func (f *company) snapshots(ctx context.Context, c *coordinator, folder *folderWay, logger *slog.Logger) {
	ticker := time.NewTicker(snapshotInterval)
	defer ticker.Stop()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ticker.C:
		}
		if err := sharedir.Snapshot(context.WithoutCancel(ctx), c.reader.CopyTo, folder.dir, c.run); err != nil {
			logger.Warn("no copy of the database in the shared folder", "error", err)
		}
	}
}

// foreignInterval is how often a shared folder is looked through for nodes of the predecessor.
const foreignInterval = 30 * time.Second

// foreigners seats the predecessor's nodes that write into the folder, until ctx ends.
func (f *company) foreigners(ctx context.Context, folder *folderWay, logger *slog.Logger) {
	ticker := time.NewTicker(foreignInterval)
	defer ticker.Stop()
	for {
		nodes, err := sharedir.Foreign(folder.dir, folder.run)
		if err != nil {
			logger.Debug("the predecessor's nodes can't be listed", "error", err)
		}
		for _, node := range nodes {
			f.reception.Foreign(node, 0)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// hear follows what workers deliver.
func (f *company) hear(e event.Event) {
	if e.Type == event.TypeState && e.State == event.StateDone {
		f.done.Store(true)
	}
}

// see follows this host's nodes.
func (f *company) see(e event.Event) {
	switch {
	case e.Worker != "" || e.Node == "":
	case e.Type == event.TypeState:
		f.reception.Progress(e.Node, e.RoundIndex)
	case e.Type == event.TypeRound && !e.Replayed:
		f.reception.Progress(e.Node, e.Round.Round+1)
	case e.Type == event.TypeGiveUp:
		f.reception.Lost(e.Node)
	}
}

// farewell is how long workers get to hear of the end and to deliver the rest of what they have.
const farewell = 30 * time.Second

// settle waits for the workers' nodes after this host's own are done. At the barrier they are at most about a round behind. Without one they may
// be far behind, and nobody pays for a GPU that waits for them: they are told to stop.
func (f *company) settle(ctx context.Context, config configs.Config) error {
	if config.Sync == "barrier" {
		patience := time.Duration(config.BarrierDeadline * float64(time.Second))
		if err := f.reception.Settled(ctx, patience); err != nil {
			return err
		}
	}
	return nil
}

// hostInterval is how often a host without nodes looks whether the others' are done.
const hostInterval = time.Second

// host waits until nodes that joined have done all their rounds, and no other that is here still works: what a host without nodes of its own does.
func (f *company) host(ctx context.Context) error {
	ticker := time.NewTicker(hostInterval)
	defer ticker.Stop()
	for {
		busy := false
		for _, w := range f.reception.Workers() {
			for _, n := range w.Nodes {
				busy = busy || w.State == event.WorkerConnected && n.State != event.StateDone && n.State != event.StateGivenUp
			}
		}
		if f.done.Load() && !busy {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run stopped: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// dismiss tells workers how the run ended, and waits until they have taken leave.
func (f *company) dismiss(ctx context.Context, state, message string, logger *slog.Logger) {
	f.reception.End(state, message)
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := f.reception.Settled(ctx, farewell); err != nil {
		logger.Warn("some workers didn't take leave: what they have not delivered they keep, and deliver when the run goes on", "error", err)
	}
}

// tell says how others join.
func (f *company) tell(c *coordinator, to io.Writer) {
	fmt.Fprintf(to, "Others join with:\n  %s\n", f.invitation)
	if f.registry != nil {
		fmt.Fprintf(to, "Who has joined, and who may not any more: %s workers\n", c.g.invocation())
	}
}
