package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// What a role of rl-swarm is called in each command.
const (
	RoleCoordinator = "coordinator"
	RoleWorker      = "worker"
)

// predecessorsFolder is the folder that rl-swarm's variables name for a role; empty: none.
func predecessorsFolder(role string) string {
	if os.Getenv(resolve.RoleVariable) != role {
		return ""
	}
	return os.Getenv(resolve.FolderVariable)
}

// Admission is what the options ask for. It refuses what can't go together, and is nil, nil where nobody is let in.
// typed tells which flags were given: where none of them says how the swarm is carried, rl-swarm's variables may.
func (o *Options) Admission(typed func(flag string) bool) (*Admission, error) {
	if err := o.readNATS(); err != nil {
		return nil, err
	}
	if o.Listen == "" && o.NATS == "" && !typed("shared") && !typed(resolve.IgnoreRLSwarmFlag) {
		o.Shared = predecessorsFolder(RoleCoordinator)
		o.Predecessor = o.Shared != ""
	}
	given := slices.DeleteFunc([]string{o.Listen, o.NATS, o.Shared}, func(s string) bool { return s == "" })
	switch {
	case len(given) > 1:
		return nil, fail.Usage(errors.New("--listen, --nats and --shared are three ways to carry one swarm"), "one of them")
	case (o.Advertise != "" || o.Cert != "" || o.Key != "") && o.Listen == "":
		return nil, fail.Usage(errors.New("--advertise, --tls-cert and --tls-key are for --listen"), "--listen :"+NATSPort)
	case (o.Cert == "") != (o.Key == ""):
		return nil, fail.Usage(errors.New("--tls-cert and --tls-key go together"), "both, or neither for a self-signed certificate")
	case o.Credentials != "" && o.NATS == "":
		return nil, fail.Usage(errors.New("--nats-creds is for --nats"), "--nats URL")
	case o.Compat && o.Shared == "":
		return nil, fail.Usage(errors.New("--compat is for --shared"), "--shared DIR")
	case len(given) == 0:
		return nil, nil
	}
	var err error
	if o.Listen != "" {
		o.Listen, err = listenAddress(o.Listen)
	}
	if o.Shared != "" {
		o.Shared, err = sharedFolder(o.Shared, o.Predecessor)
	}
	if err != nil {
		return nil, err
	}
	return NewAdmission(*o), nil
}

// listenAddress is host:port of what --listen names.
func listenAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), NATSPort
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

// readNATS takes the cluster's URLs from the file that --nats-file names: others see a process's arguments, and a
// unit's.
func (o *Options) readNATS() error {
	if o.NATSFile == "" {
		return nil
	}
	if o.NATS != "" {
		return fail.Usage(errors.New("--nats and --nats-file at once"), "one of them")
	}
	info, err := os.Stat(o.NATSFile)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return fail.Usage(fmt.Errorf("--nats-file %s can be read by others", o.NATSFile), "chmod 600 "+o.NATSFile)
	}
	data, err := files.ReadBounded(o.NATSFile, configs.MaxDocument)
	if err != nil {
		return fail.Usage(fmt.Errorf("--nats-file: %w", err), "a file with nats://user:password@host:4222, several with commas or in lines")
	}
	if o.NATS = strings.Join(strings.Fields(string(data)), ","); o.NATS == "" {
		return fail.Usage(fmt.Errorf("--nats-file %s is empty", o.NATSFile), "nats://user:password@host:4222 in it, several with commas or in lines")
	}
	return nil
}

// sharedFolder is the absolute path of what --shared names, or GDRIVE_PATH. It is never made here: an empty mount point
// would be filled.
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
		return text, &configs.Error{Key: "shared", Value: text, Source: source, Allowed: "an existing folder: mount it first"}
	}
	return dir, nil
}

// TellFolder says that nobody typed the folder, and how to do without.
func TellFolder(logger *slog.Logger, folder, role string) {
	logger.Info("the swarm is carried through "+resolve.FolderVariable+", since "+resolve.RoleVariable+" is "+role+"; --shared '' leaves it alone", "folder", folder)
}
