// Package web serves the dashboard of a home: its addresses, its access control, and the files of runs' folders for
// its pages. It needs a home, only reads, and prints only through its caller. It must not import packages that
// train runs.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
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
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// DefaultAddress is the default listen address of a dashboard.
const DefaultAddress = "127.0.0.1:8420"

// Options configure the home, the listen address and the access control of a dashboard.
type Options struct {
	Home    layout.Home
	Logger  *slog.Logger
	Version string // of this program
	Studies dashboard.Studies

	Listen, Token   string // host:port, where port 0 means any free port; an empty token means the home's token
	NoToken         bool   // allow everyone who reaches this host's loopback
	Source          string // flag that sets Listen; empty: --listen
	TLSCert, TLSKey string // PEM files; both empty: no TLS
}

// Service is a dashboard that listens. The caller must call Serve or Close.
type Service struct {
	home     layout.Home
	logger   *slog.Logger
	server   *dashboard.Server
	listener net.Listener
	url      string   // without the token
	token    string   // empty: none
	file     string   // file with the token; empty: the user set the token, or there is none
	notes    []string // messages for users
}

// Listen opens the listener of a dashboard. It answers requests only after Serve.
func Listen(ctx context.Context, o Options) (*Service, error) {
	address, err := o.address(ctx)
	if err != nil {
		return nil, err
	}
	encryption, err := o.encryption()
	if err != nil {
		return nil, err
	}
	d := &Service{home: o.Home, logger: o.Logger}
	if err := d.secure(&o, address, encryption != nil); err != nil {
		return nil, err
	}
	folders := &runFolders{home: o.Home}
	d.server, err = dashboard.New(dashboard.Options{
		Path: o.Home.Database(), Alive: lifecycle.Alive, Logs: folders.logs, Rollouts: folders.rollouts, Version: o.Version, Token: o.Token,
		Logger: o.Logger, Studies: o.Studies,
	})
	if err != nil {
		return nil, err
	}
	if d.listener, err = net.ListenTCP("tcp", address); err != nil {
		return nil, cannotListen(o.Listen, err)
	}
	d.url = dashboardURL(d.listener.Addr().(*net.TCPAddr), encryption != nil)
	if encryption != nil {
		d.listener = tls.NewListener(d.listener, encryption)
	}
	return d, nil
}

// ListenBeside is Listen for a page of a run. It returns nil if no address is set. If the default port is in use,
// it uses any free port.
func ListenBeside(ctx context.Context, o Options) (*Service, error) {
	if o.Listen == "" {
		return nil, nil
	}
	d, err := Listen(ctx, o)
	if o.Listen == DefaultAddress && errors.Is(err, syscall.EADDRINUSE) {
		o.Listen = "127.0.0.1:0"
		d, err = Listen(ctx, o)
	}
	return d, err
}

// address parses --listen.
func (o *Options) address(ctx context.Context) (*net.TCPAddr, error) {
	refuse := &configs.Error{Key: "listen", Value: o.Listen, Source: cmp.Or(o.Source, "--listen"),
		Allowed: "an address and a port, such as " + DefaultAddress}
	host, port, err := net.SplitHostPort(o.Listen)
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

// encryption returns the TLS configuration, or nil without TLS.
func (o *Options) encryption() (*tls.Config, error) {
	if o.TLSCert == "" && o.TLSKey == "" {
		return nil, nil
	}
	if o.TLSCert == "" || o.TLSKey == "" {
		return nil, fail.Usage(errors.New("--tls-cert and --tls-key must be given together"), "both of them, or none")
	}
	pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, fail.Usage(fmt.Errorf("--tls-cert and --tls-key: %w", err), "a certificate and its key, each a PEM file")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// secure checks the token. Without one it uses the home's token.
func (d *Service) secure(o *Options, address *net.TCPAddr, encrypted bool) (err error) {
	switch {
	case o.NoToken && o.Token != "":
		return fail.Usage(errors.New("a token and --no-token exclude each other"), "one of them")
	case o.NoToken && !address.IP.IsLoopback():
		return fail.Usage(fmt.Errorf("--no-token works only on this machine, but %s is reachable from others", o.Listen), "the command without --no-token, or "+DefaultAddress)
	case o.Token != "" && !goodToken(o.Token):
		return &configs.Error{Key: "token", Value: fmt.Sprintf("%d bytes", len(o.Token)), Source: "--token",
			Allowed: "16 to 256 letters, digits and punctuation without spaces"}
	case o.Token == "" && !o.NoToken:
		if o.Token, err = homeToken(o.Home); err != nil {
			return err
		}
		d.file = o.Home.DashboardToken()
	}
	if !encrypted && !address.IP.IsLoopback() {
		d.notes = append(d.notes, "Warning: without TLS the token and the page travel unencrypted. "+
			"Try: --tls-cert and --tls-key, or listen on 127.0.0.1 and ssh -L.")
	}
	d.token = o.Token
	return nil
}

func goodToken(token string) bool {
	if len(token) < 16 || len(token) > 256 {
		return false
	}
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Look rejects a database that cannot be read. A missing database is fine: it may appear later.
func (d *Service) Look(ctx context.Context) error {
	reader, err := store.OpenReader(ctx, d.home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		d.notes = append(d.notes, "Nothing has run under "+string(d.home)+" yet. The page shows runs as soon as one starts.")
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
		return fail.Hint(fmt.Errorf("cannot listen on %s: another dashboard or another program listens there (%w)", address, syscall.EADDRINUSE),
			"another port, or port 0 for any free port")

	case errors.Is(err, syscall.EACCES):
		return fail.Hint(fmt.Errorf("cannot listen on %s: permission denied", address), "a port above 1023")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail.Hint(fmt.Errorf("cannot listen on %s: not an address of this machine", address), DefaultAddress)
	}
	return fmt.Errorf("listen on %s: %w", address, err)
}

func dashboardURL(address *net.TCPAddr, encrypted bool) string {
	u := url.URL{Scheme: "http", Host: address.String(), Path: "/"}
	if encrypted {
		u.Scheme = "https"
	}
	if host, err := os.Hostname(); err == nil && address.IP.IsUnspecified() {
		u.Host = net.JoinHostPort(host, strconv.Itoa(address.Port))
	}
	return u.String()
}

// Serve answers requests until ctx ends.
func (d *Service) Serve(ctx context.Context) error {
	if err := d.server.Serve(ctx, d.listener); err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	return nil
}

// Close closes the listener of a page that was never served. It does nothing on nil.
func (d *Service) Close() {
	if d != nil {
		d.listener.Close()
	}
}

// Show opens the page in a browser, if there is one. Other users can read a program's arguments, so an address with
// a token is not passed as one. The browser gets a file that redirects to it and that only this user can read. Show
// removes the file when ctx ends, at the latest.
func (d *Service) Show(ctx context.Context) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	target := d.url
	if d.token != "" {
		target = d.home.Path("dashboard.html")
		page := fmt.Sprintf("<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer><meta http-equiv=refresh content=\"0; url=%s\">\n",
			html.EscapeString(d.Link()))
		if err := files.WriteSecret(target, []byte(page)); err != nil {
			d.logger.Warn("no browser could be opened", "error", err)
			return
		}
		context.AfterFunc(ctx, func() { os.Remove(target) })
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := exec.CommandContext(limited, program, target).Run(); err != nil {
		d.logger.Warn("no browser could be opened", "program", program, "error", err)
	}
}

// URL returns the page's address without its token.
func (d *Service) URL() string { return d.url }

// Link returns the page's address with its token, which is a secret.
func (d *Service) Link() string {
	if d.token == "" {
		return d.url
	}
	return d.url + "?" + url.Values{"token": {d.token}}.Encode()
}

// TokenFile returns the file with the token, or "" if the user set a token or wants none.
func (d *Service) TokenFile() string { return d.file }

// Tell implements coordinator.Page. It prints the page's address. The address includes the token only on a
// terminal, because others may read logs. Elsewhere Tell names the token's file.
func (d *Service) Tell(stdout, stderr io.Writer) {
	address := d.url
	if screen.IsTerminal(stdout) {
		address = d.Link()
	}
	fmt.Fprintf(stdout, "Dashboard: %s\n", address)
	if address != d.Link() && d.file != "" {
		fmt.Fprintf(stderr, "The dashboard's token is in %s.\n", d.file)
	}
	for _, note := range d.notes {
		fmt.Fprintln(stderr, note)
	}
}
