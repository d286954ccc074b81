package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// admissionFlags are up's ways for other hosts to join.
type admissionFlags struct {
	listen, advertise string
	cert, key         string
	nats, credentials string
	natsFile          string
	shared            string
	compat            bool

	typed       func(flag string) bool
	predecessor bool // shared is GDRIVE_PATH's
}

func (f *admissionFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "", "let others join over the network: `address` to listen on with TLS, such as :4222; prints the line they type")
	fs.StringVar(&f.advertise, "advertise", "", "`host` or host:port, or several with commas, by which others reach this host (default: its addresses)")
	fs.StringVar(&f.cert, "tls-cert", "", "`file` of a certificate of one's own for --listen (default: a self-signed one, pinned by its fingerprint)")
	fs.StringVar(&f.key, "tls-key", "", "`file` of its private key")
	fs.StringVar(&f.nats, "nats", "", "carry the swarm over a NATS cluster instead of an own server: `URL`s with commas")
	fs.StringVar(&f.natsFile, "nats-file", "", "`file` of mode 0600 with what --nats takes: where the URLs hold a password")
	fs.StringVar(&f.credentials, "nats-creds", "", "credentials `file` for --nats")
	fs.StringVar(&f.shared, "shared", "", "carry the swarm through a synced `folder` such as a mounted Google Drive (with NODE_ROLE=coordinator: GDRIVE_PATH)")
	fs.BoolVar(&f.compat, "compat", false, "with --shared: also write the files that the predecessor's nodes read")
	f.typed = fs.Changed
}

// What a role of rl-swarm is called in each command.
const (
	roleCoordinator = "coordinator"
	roleWorker      = "worker"
)

// predecessorsFolder is the folder that the predecessor's variables name for a role; empty: none.
func predecessorsFolder(role string) string {
	if os.Getenv(resolve.RoleVariable) != role {
		return ""
	}
	return os.Getenv(resolve.FolderVariable)
}

// admission is what the flags ask for, and refuses what can't go together. It is nil, nil where nobody is let in.
func (f *admissionFlags) admission() (*workers.Admission, error) {
	if err := f.readNATS(); err != nil {
		return nil, err
	}
	if f.listen == "" && f.nats == "" && !f.typed("shared") && !f.typed(resolve.IgnoreRLSwarmFlag) {
		f.shared = predecessorsFolder(roleCoordinator)
		f.predecessor = f.shared != ""
	}
	given := slices.DeleteFunc([]string{f.listen, f.nats, f.shared}, func(s string) bool { return s == "" })
	switch {
	case len(given) > 1:
		return nil, fail.Usage(errors.New("--listen, --nats and --shared are three ways to carry one swarm"), "one of them")
	case (f.advertise != "" || f.cert != "" || f.key != "") && f.listen == "":
		return nil, fail.Usage(errors.New("--advertise, --tls-cert and --tls-key are for --listen"), "--listen :"+workers.NATSPort)
	case (f.cert == "") != (f.key == ""):
		return nil, fail.Usage(errors.New("--tls-cert and --tls-key go together"), "both, or neither for a self-signed certificate")
	case f.credentials != "" && f.nats == "":
		return nil, fail.Usage(errors.New("--nats-creds is for --nats"), "--nats URL")
	case f.compat && f.shared == "":
		return nil, fail.Usage(errors.New("--compat is for --shared"), "--shared DIR")
	case len(given) == 0:
		return nil, nil
	}
	var err error
	if f.listen != "" {
		f.listen, err = listenAddress(f.listen)
	}
	if f.shared != "" {
		f.shared, err = sharedFolder(f.shared, f.predecessor)
	}
	if err != nil {
		return nil, err
	}
	return workers.NewAdmission(workers.Options{
		Listen: f.listen, Advertise: f.advertise, Cert: f.cert, Key: f.key, NATS: f.nats, Credentials: f.credentials, Shared: f.shared, Compat: f.compat,
	}), nil
}

// listenAddress is host:port of what --listen names.
func listenAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), workers.NATSPort
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil || strings.ContainsAny(host, "/ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", &configs.Error{Key: "listen", Value: text, Source: "--listen", Allowed: "host:port, :port or host"}
	}
	if number == 0 {
		port = "0"
	}
	return net.JoinHostPort(host, port), nil
}

// readNATS takes the cluster's URLs from the file that --nats-file names: others see a process's arguments, and a unit's.
func (f *admissionFlags) readNATS() error {
	if f.natsFile == "" {
		return nil
	}
	if f.nats != "" {
		return fail.Usage(errors.New("--nats and --nats-file at once"), "one of them")
	}
	info, err := os.Stat(f.natsFile)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return fail.Usage(fmt.Errorf("--nats-file %s can be read by others", f.natsFile), "chmod 600 "+f.natsFile)
	}
	data, err := files.ReadBounded(f.natsFile, configs.MaxDocument)
	if err != nil {
		return fail.Usage(fmt.Errorf("--nats-file: %w", err), "a file with nats://user:password@host:4222, several with commas or in lines")
	}
	if f.nats = strings.Join(strings.Fields(string(data)), ","); f.nats == "" {
		return fail.Usage(fmt.Errorf("--nats-file %s is empty", f.natsFile), "nats://user:password@host:4222 in it, several with commas or in lines")
	}
	return nil
}

// sharedFolder is the absolute path of what --shared names, or GDRIVE_PATH. It is never made here: an empty mount point would be filled.
func sharedFolder(text string, predecessor bool) (string, error) {
	source := "--shared"
	if predecessor {
		source = resolve.FolderVariable
	}
	dir, err := filepath.Abs(text)
	if err != nil {
		return text, fmt.Errorf("%s: %w", source, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return text, &configs.Error{Key: "shared", Value: text, Source: source, Allowed: "a folder that is there: mount it first"}
	}
	return dir, nil
}

// tellFolder says that nobody typed the folder, and how to do without.
func tellFolder(logger *slog.Logger, folder, role string) {
	logger.Info("the swarm is carried through "+resolve.FolderVariable+", since "+resolve.RoleVariable+" is "+role+"; --shared '' leaves it alone", "folder", folder)
}
