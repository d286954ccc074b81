package workers

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
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// NATSPort is the default port of NATS.
const NATSPort = "4222"

// InvitationPath returns the path of the file with the last invitation. Only the owner can read its folder.
func InvitationPath(home layout.Home) string { return filepath.Join(home.Workers(), "invitation") }

// ReadInvitation returns the last invitation.
func ReadInvitation(home layout.Home) (membership.Invitation, error) {
	text, err := os.ReadFile(InvitationPath(home))
	if err != nil {
		return membership.Invitation{}, fail.Usage(fmt.Errorf("no invitation exists under %s: no run there has admitted others", home), "swarm up --listen :"+NATSPort)
	}
	return membership.ParseInvitation(string(text))
}

// Open opens the transport for workers. It uses the fields of run that are known before nodes are assigned.
func (a *Admission) Open(ctx context.Context, run Run) (Transport, error) {
	a.home = run.Home
	if a.options.Shared != "" {
		return a.openFolder(run)
	}
	var err error
	if a.registry, err = membership.OpenRegistry(run.Home.Workers()); err != nil {
		return nil, err
	}
	invitation := membership.Invitation{Scheme: membership.SchemeTLS}
	var bus *busTransport
	if a.options.NATS != "" {
		invitation.Scheme = membership.SchemeNATS
		bus, err = a.openCluster(ctx, run, &invitation)
	} else {
		bus, err = a.openServer(ctx, run, &invitation)
	}
	if err != nil {
		return nil, err
	}
	// Only now, so that a run that cannot listen leaves no invitation.
	if invitation.Token, err = a.registry.Invite("", false); err != nil {
		bus.Close()
		return nil, err
	}
	a.transport, a.invitation = bus, "swarm join '"+invitation.String()+"'"
	if a.options.Credentials != "" {
		a.invitation += " --nats-creds FILE"
	}
	if err := files.WriteSecret(InvitationPath(run.Home), []byte(invitation.String()+"\n")); err != nil {
		bus.Close()
		return nil, run.Home.Error(err)
	}
	return bus, nil
}

func (a *Admission) openFolder(run Run) (Transport, error) {
	dir, err := sharedir.Folder(a.options.Shared, run.Config.Experiment)
	if err != nil {
		return nil, err
	}
	a.transport = &folderTransport{dir: dir, run: run.Name, compat: a.options.Compat, logger: run.Logger}
	a.invitation = fmt.Sprintf("swarm join --shared DIR --experiment %s   (DIR: where that host has %s)", run.Config.Experiment, a.options.Shared)
	return a.transport, nil
}

// openCluster uses an existing NATS cluster. The invitation does not contain passwords of its URLs.
func (a *Admission) openCluster(ctx context.Context, run Run, invitation *membership.Invitation) (*busTransport, error) {
	options := natsbus.ServerOptions{External: strings.Split(a.options.NATS, ","), Credentials: a.options.Credentials, Admit: a.registry.Check}
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
			port = NATSPort
		}
		invitation.Hosts = append(invitation.Hosts, net.JoinHostPort(u.Hostname(), port))
	}
	return openBus(ctx, run, options)
}

// openServer listens on the network.
func (a *Admission) openServer(ctx context.Context, run Run, invitation *membership.Invitation) (*busTransport, error) {
	hosts := advertised(a.options.Listen, a.options.Advertise)
	certificate, fingerprint, err := a.certificate(run.Home, hosts)
	if err != nil {
		return nil, err
	}
	bus, err := openBus(ctx, run, natsbus.ServerOptions{
		Listen: a.options.Listen, Admit: a.registry.Check,
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

// certificate returns the user's own certificate without a fingerprint, so that workers check the host name.
// Otherwise it returns this home's certificate.
func (a *Admission) certificate(home layout.Home, hosts []string) (tls.Certificate, string, error) {
	if a.options.Cert == "" {
		return natsbus.Certificate(home.Workers(), hosts)
	}
	certificate, err := tls.LoadX509KeyPair(a.options.Cert, a.options.Key)
	if err != nil {
		return certificate, "", fail.Usage(fmt.Errorf("--tls-cert %s, --tls-key %s: %w", a.options.Cert, a.options.Key, err), "PEM files of a certificate chain and its key")
	}
	return certificate, "", nil
}

// advertised returns the hosts under which others reach this one: the values of told, or the listen address, or
// else its non-loopback addresses. The kernel's order usually puts the default route's first.
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

// Hint returns a short text on how others join, for a live view, which must not show a secret and has little space.
func (a *Admission) Hint(invocation string) string {
	if a.registry == nil {
		return a.invitation
	}
	return invocation + " workers invite prints the command to join"
}

// Print prints how others join. With logged, others may read the output, so Print names the file with the secret
// instead.
func (a *Admission) Print(to io.Writer, invocation string, logged bool) {
	if a.registry != nil && logged {
		fmt.Fprintf(to, "Others join with the command in %s\n", InvitationPath(a.home))
	} else {
		fmt.Fprintf(to, "Others join with:\n  %s\n", a.invitation)
	}
	if a.registry != nil {
		fmt.Fprintf(to, "To list, ban or revoke workers: %s workers\n", invocation)
	}
}

// Invitation returns the command with which others join.
func (a *Admission) Invitation() string { return a.invitation }

// InvitationFile returns the file with the secret in Invitation, or "" if there is none.
func (a *Admission) InvitationFile() string {
	if a.registry == nil {
		return ""
	}
	return InvitationPath(a.home)
}
