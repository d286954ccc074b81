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

// Names of rl-swarm's roles.
const (
	RoleCoordinator = "coordinator"
	RoleWorker      = "worker"
)

// predecessorsFolder returns the folder that rl-swarm's variables name for a role, or "".
func predecessorsFolder(role string) string {
	if os.Getenv(resolve.RoleVariable) != role {
		return ""
	}
	return os.Getenv(resolve.FolderVariable)
}

// Admission returns the Admission for the options, or nil if no other host may join. It rejects conflicting
// options. typed reports whether the user set a flag: if no flag selects a transport, rl-swarm's variables may.
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
		return nil, fail.Usage(errors.New("--listen, --nats and --shared exclude each other"), "one of them")
	case (o.Advertise != "" || o.Cert != "" || o.Key != "") && o.Listen == "":
		return nil, fail.Usage(errors.New("--advertise, --tls-cert and --tls-key need --listen"), "--listen :"+NATSPort)
	case (o.Cert == "") != (o.Key == ""):
		return nil, fail.Usage(errors.New("--tls-cert and --tls-key must be given together"), "both, or neither for a self-signed certificate")
	case o.Credentials != "" && o.NATS == "":
		return nil, fail.Usage(errors.New("--nats-creds needs --nats"), "--nats URL")
	case o.Compat && o.Shared == "":
		return nil, fail.Usage(errors.New("--compat needs --shared"), "--shared DIR")
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

// listenAddress returns the value of --listen as host:port.
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

// readNATS reads the cluster's URLs from the file that --nats-file names. A file keeps them secret: other users can
// read a process's arguments and a unit.
func (o *Options) readNATS() error {
	if o.NATSFile == "" {
		return nil
	}
	if o.NATS != "" {
		return fail.Usage(errors.New("--nats and --nats-file exclude each other"), "one of them")
	}
	info, err := os.Stat(o.NATSFile)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return fail.Usage(fmt.Errorf("other users can read the --nats-file %s", o.NATSFile), "chmod 600 "+o.NATSFile)
	}
	data, err := files.ReadBounded(o.NATSFile, configs.MaxDocument)
	if err != nil {
		return fail.Usage(fmt.Errorf("--nats-file: %w", err), "a file with nats://user:password@host:4222, several separated by commas or lines")
	}
	if o.NATS = strings.Join(strings.Fields(string(data)), ","); o.NATS == "" {
		return fail.Usage(fmt.Errorf("--nats-file %s is empty", o.NATSFile), "nats://user:password@host:4222 in it, several separated by commas or lines")
	}
	return nil
}

// sharedFolder returns the absolute path of --shared or GDRIVE_PATH. It never creates the folder: that would fill
// an empty mount point.
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
		return text, &configs.Error{Key: "shared", Value: text, Source: source, Allowed: "an existing folder; mount it first"}
	}
	return dir, nil
}

// TellFolder logs that the folder comes from rl-swarm's variables, and how to ignore it.
func TellFolder(logger *slog.Logger, folder, role string) {
	logger.Info("the swarm uses "+resolve.FolderVariable+", because "+resolve.RoleVariable+" is "+role+"; --shared '' ignores it", "folder", folder)
}
