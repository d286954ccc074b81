package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
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

// company is what the flags ask for, and refuses what can't go together. It is nil, nil where nobody is let in.
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
		var err error
		if f.shared, err = sharedFolder(f.shared); err != nil {
			return nil, err
		}
	}
	return &company{flags: *f}, nil
}

// sharedFolder is the absolute path of what --shared names, which is never made here: an empty mount point would be filled.
func sharedFolder(text string) (string, error) {
	dir, err := filepath.Abs(text)
	if err != nil {
		return text, fmt.Errorf("--shared: %w", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return text, &configs.Error{Key: "shared", Value: text, Source: "--shared", Allowed: "a folder that is there: mount it first"}
	}
	return dir, nil
}
