package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// invitationPath is where a home keeps the line that was last handed out. Its folder is the owner's alone.
func invitationPath(g *globals) string { return filepath.Join(g.home.Workers(), "invitation") }

// readInvitation is that line.
func readInvitation(g *globals) (membership.Invitation, error) {
	text, err := os.ReadFile(invitationPath(g))
	if err != nil {
		return membership.Invitation{}, fail.Usage(fmt.Errorf("no invitation is known under %s: no swarm has been open to others", g.home), "swarm up --listen :"+natsPort)
	}
	return membership.ParseInvitation(string(text))
}

// open opens the way that workers share.
func (f *company) open(ctx context.Context, c *coordinator) (way, error) {
	if f.flags.shared != "" {
		return f.openFolder(c)
	}
	var err error
	if f.registry, err = membership.OpenRegistry(c.g.home.Workers()); err != nil {
		return nil, err
	}
	token, err := f.registry.Invite("", false)
	if err != nil {
		return nil, err
	}
	invitation := membership.Invitation{Scheme: membership.SchemeTLS, Token: token}
	var bus *busWay
	if f.flags.nats != "" {
		invitation.Scheme = membership.SchemeNATS
		bus, err = f.openCluster(ctx, c, &invitation)
	} else {
		bus, err = f.openServer(ctx, c, &invitation)
	}
	if err != nil {
		return nil, err
	}
	f.way, f.invitation = bus, "swarm join '"+invitation.String()+"'"
	if f.flags.credentials != "" {
		f.invitation += " --nats-creds FILE"
	}
	if err := files.WriteSecret(invitationPath(c.g), []byte(invitation.String()+"\n")); err != nil {
		bus.close()
		return nil, c.g.home.Error(err)
	}
	return bus, nil
}

func (f *company) openFolder(c *coordinator) (way, error) {
	if f.flags.predecessor {
		tellFolder(c.g.logger, f.flags.shared, roleCoordinator)
	}
	dir, err := sharedir.Folder(f.flags.shared, c.p.config.Experiment)
	if err != nil {
		return nil, err
	}
	f.way = &folderWay{dir: dir, run: c.run, compat: f.flags.compat, logger: c.g.logger}
	f.invitation = fmt.Sprintf("swarm join --shared DIR --experiment %s   (DIR: where that host has %s)", c.p.config.Experiment, f.flags.shared)
	return f.way, nil
}

// openCluster uses somebody's NATS cluster. What is handed out holds no password of its URLs.
func (f *company) openCluster(ctx context.Context, c *coordinator, invitation *membership.Invitation) (*busWay, error) {
	options := natsbus.ServerOptions{External: strings.Split(f.flags.nats, ","), Credentials: f.flags.credentials, Admit: f.registry.Check}
	for _, server := range options.External {
		text := strings.TrimSpace(server)
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			return nil, &configs.Error{Key: "nats", Value: server, Source: "--nats", Allowed: "nats://host:port, or several with commas"}
		}
		port := u.Port()
		if port == "" {
			port = natsPort
		}
		invitation.Hosts = append(invitation.Hosts, net.JoinHostPort(u.Hostname(), port))
	}
	return openBus(ctx, c, options)
}

// openServer listens on the network.
func (f *company) openServer(ctx context.Context, c *coordinator, invitation *membership.Invitation) (*busWay, error) {
	hosts := advertised(f.flags.listen, f.flags.advertise)
	certificate, fingerprint, err := f.certificate(c.g, hosts)
	if err != nil {
		return nil, err
	}
	bus, err := openBus(ctx, c, natsbus.ServerOptions{
		Listen: f.flags.listen, Admit: f.registry.Check,
		TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
	})
	if err != nil {
		return nil, err
	}
	invitation.Fingerprint = fingerprint
	for _, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			address, _ := bus.server.Addr().(*net.TCPAddr)
			host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(address.Port))
		}
		invitation.Hosts = append(invitation.Hosts, host)
	}
	return bus, nil
}

// certificate is the user's own, without a fingerprint: then the name is what counts; or one that this home keeps.
func (f *company) certificate(g *globals, hosts []string) (tls.Certificate, string, error) {
	if f.flags.cert == "" {
		return natsbus.Certificate(g.home.Workers(), hosts)
	}
	certificate, err := tls.LoadX509KeyPair(f.flags.cert, f.flags.key)
	if err != nil {
		return certificate, "", fail.Usage(fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.flags.cert, f.flags.key, err), "PEM files of a certificate chain and its key")
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

// hint says in a few words how others join: a live view is no place for a secret, nor wide enough for it.
func (f *company) hint(c *coordinator) string {
	if f.registry == nil {
		return f.invitation
	}
	return c.g.invocation() + " workers invite prints the line for it"
}

// tell says how others join. In the background what is said is logged, where others may read it: the secret is then said by up alone.
func (f *company) tell(c *coordinator, to io.Writer) {
	if f.registry != nil && c.g.console != nil {
		fmt.Fprintf(to, "Others join with the line in %s\n", invitationPath(c.g))
	} else {
		fmt.Fprintf(to, "Others join with:\n  %s\n", f.invitation)
	}
	if f.registry != nil {
		fmt.Fprintf(to, "Who has joined, and who may not any more: %s workers\n", c.g.invocation())
	}
}
