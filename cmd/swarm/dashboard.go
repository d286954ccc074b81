package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// dashboardService is a dashboard that listens. Whoever has one serves it.
type dashboardService struct {
	server   *dashboard.Server
	listener net.Listener
	url      string   // to be opened, with the token where there is one
	secret   bool     // url has a token
	notes    []string // for people
}

// listenDashboard listens for a dashboard of this home. Nothing is answered before serve.
func (g *globals) listenDashboard(ctx context.Context, o dashboardOptions) (*dashboardService, error) {
	address, err := o.address(ctx)
	if err != nil {
		return nil, err
	}
	encryption, err := o.encryption()
	if err != nil {
		return nil, err
	}
	d := &dashboardService{}
	if err := d.secure(&o, address, encryption != nil); err != nil {
		return nil, err
	}
	folders := &runFolders{g: g}
	d.server, err = dashboard.New(dashboard.Options{
		Path: g.home.Database(), Alive: lifecycle.Alive, Key: configKey, Logs: folders.logs, Rollouts: folders.rollouts, Version: version, Token: o.token,
		Logger: g.logger,
	})
	if err != nil {
		return nil, err
	}
	if d.listener, err = net.ListenTCP("tcp", address); err != nil {
		return nil, cannotListen(o.listen, err)
	}
	d.url = dashboardURL(d.listener.Addr().(*net.TCPAddr), o.token, encryption != nil)
	if encryption != nil {
		d.listener = tls.NewListener(d.listener, encryption)
	}
	return d, nil
}

// address reads --listen.
func (o *dashboardOptions) address(ctx context.Context) (*net.TCPAddr, error) {
	refuse := &configs.Error{Key: "listen", Value: o.listen, Source: cmp.Or(o.source, "--listen"),
		Allowed: "an address and a port, such as " + defaultDashboard}
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, refuse
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, refuse
	}
	if host == "" {
		return &net.TCPAddr{Port: int(number)}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addresses) == 0 {
		return nil, refuse
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addresses[0].Unmap(), uint16(number))), nil
}

// encryption is nil where none is asked for.
func (o *dashboardOptions) encryption() (*tls.Config, error) {
	if o.tlsCert == "" && o.tlsKey == "" {
		return nil, nil
	}
	if o.tlsCert == "" || o.tlsKey == "" {
		return nil, fail.Usage(errors.New("--tls-cert and --tls-key belong together"), "both of them, or none")
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fail.Usage(fmt.Errorf("--tls-cert and --tls-key: %w", err), "a certificate and its key, each a PEM file")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// secure checks the token, and makes one for who listens beyond this machine without.
func (d *dashboardService) secure(o *dashboardOptions, address *net.TCPAddr, encrypted bool) error {
	if o.token != "" && !goodToken(o.token) {
		return &configs.Error{Key: "token", Value: fmt.Sprintf("%d bytes", len(o.token)), Source: "--token",
			Allowed: "16 to 256 letters, digits and signs without spaces"}
	}
	if !address.IP.IsLoopback() {
		if o.token == "" {
			o.token = rand.Text()
		}
		if !encrypted {
			d.notes = append(d.notes, "Warning: without TLS the token and everything shown travel in clear. "+
				"Try: --tls-cert and --tls-key, or listen on 127.0.0.1 and ssh -L.")
		}
	}
	d.secret = o.token != ""
	return nil
}

func goodToken(token string) bool {
	if len(token) < 16 || len(token) > 256 {
		return false
	}
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// look refuses a database that can't be read. One that isn't there yet may come.
func (d *dashboardService) look(ctx context.Context, g *globals) error {
	reader, err := store.OpenReader(ctx, g.home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		d.notes = append(d.notes, "Nothing has run under "+string(g.home)+" yet: the page fills as soon as something does.")
		return nil
	}
	if err != nil {
		return err
	}
	return reader.Close()
}

func cannotListen(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fail.Hint(fmt.Errorf("%s is taken: another dashboard, or another program, listens there (%w)", address, syscall.EADDRINUSE),
			"another port, or port 0 for any free one")

	case errors.Is(err, syscall.EACCES):
		return fail.Hint(fmt.Errorf("no permission to listen on %s", address), "a port above 1023")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail.Hint(fmt.Errorf("%s is not an address of this machine", address), defaultDashboard)
	}
	return fmt.Errorf("listen on %s: %w", address, err)
}

func dashboardURL(address *net.TCPAddr, token string, encrypted bool) string {
	u := url.URL{Scheme: "http", Host: address.String(), Path: "/"}
	if encrypted {
		u.Scheme = "https"
	}
	if host, err := os.Hostname(); err == nil && address.IP.IsUnspecified() {
		u.Host = net.JoinHostPort(host, strconv.Itoa(address.Port))
	}
	if token != "" {
		u.RawQuery = url.Values{"token": {token}}.Encode()
	}
	return u.String()
}

// Serve answers until ctx ends.
func (d *dashboardService) Serve(ctx context.Context) error {
	if err := d.server.Serve(ctx, d.listener); err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	return nil
}

// close gives the port of a page that was never served back; of none it does nothing.
func (d *dashboardService) close() {
	if d != nil {
		d.listener.Close()
	}
}

// show opens the page in a browser, if there is one. An address with a token stays out of other programs' arguments, which everybody on the
// machine can read.
func (d *dashboardService) show(ctx context.Context, g *globals) {
	if d.secret {
		fmt.Fprintln(g.stderr, "--open leaves an address with a token to you: open the one above.")
		return
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, program, d.url).Run(); err != nil {
		g.logger.Warn("no browser could be opened", "program", program, "error", err)
	}
}

// URL implements coordinator.Page.
func (d *dashboardService) URL() string { return d.url }

// Notes implements coordinator.Page.
func (d *dashboardService) Notes() []string { return d.notes }
