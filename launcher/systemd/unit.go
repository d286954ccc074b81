package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// Unit is a service that keeps one `swarm up` running. systemd starts it at boot and again after a crash.
type Unit struct {
	Name        string // DefaultName, or a result of UnitName
	System      bool   // of the machine rather than of a user
	User        string // account of a system unit; empty: root
	Directory   string // absolute
	Exe         string // absolute
	Args        []string
	Environment []string // KEY=value
	Secrets     Secrets  // arguments kept in files
}

// names matches valid names of services. systemd allows a few more characters.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// DefaultName is the unit of the service without a name of its own.
const DefaultName = "swarm.service"

// UnitName returns the unit of the service called name. ok reports whether name is valid: letters, digits, _ . and
// -, at most 64, starting with a letter or digit.
func UnitName(name string) (unit string, ok bool) {
	return "swarm-" + strings.TrimSuffix(name, ".service") + ".service", names.MatchString(name)
}

// Command is the command that a unit runs: this program with this home and Python.
type Command struct {
	Home    string // absolute
	Python  string // program; empty: not set
	Verbose bool
	Verb    string // up, join
	Args    []string
	Device  string // --device for an up without one; empty: none
}

// NewUnit returns the unit that runs a command in the current folder. left has the names of environment variables
// that the unit does not keep.
func NewUnit(name string, system bool, c Command) (u Unit, left []string, err error) {
	u = Unit{Name: name, System: system}
	if u.Exe, err = os.Executable(); err != nil {
		return u, nil, fmt.Errorf("own program: %w", err)
	}
	if u.Directory, err = os.Getwd(); err != nil {
		return u, nil, fmt.Errorf("this folder: %w", err)
	}
	u.Args = []string{"--home", c.Home}
	if c.Python != "" {
		python, err := absoluteProgram(c.Python)
		if err != nil {
			return u, nil, err
		}
		u.Args = append(u.Args, "--python", python)
	}
	if c.Verbose {
		u.Args = append(u.Args, "--verbose")
	}
	u.Args = append(append(u.Args, c.Verb), c.Args...)
	if c.Device != "" {
		u.Args = append(u.Args, "--device", c.Device)
	}
	u.Environment, left = Environment(os.Environ())
	if system {
		u.User, err = Owner(c.Home)
	}
	return u, left, err
}

// absoluteProgram returns the absolute path of a program.
func absoluteProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fail.Usage(fmt.Errorf("--python %s: %w", name, err), "the path of a python3 that has torch")
	}
	return filepath.Abs(path)
}

// Text returns the unit file, in the form of systemd.service(5) and systemd.syntax(7). It returns an error for text
// that a unit file cannot hold.
//
// The exit code decides whether systemd starts the service again:
//   - 0 and a stop by signal (130, 143; 129 when the terminal hangs up) are an orderly end. The service stays down
//     until the next boot or start.
//   - 2 is a permanent mistake, and 4 is an end: swarm gave up some nodes and the others are done, or it gave up all
//     again and again. The service stays down.
//   - 1 and 3 may be temporary (a full disk, a GPU in use, a coordinator that is away), and so is a kill. systemd
//     starts the service again after 3 minutes, without a limit: a unit that reaches a start limit stays down for good.
func (u Unit) Text() (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", mark)
	line("[Unit]")
	line("Description=swarm up (%s)", strings.TrimSuffix(u.Name, ".service"))
	line("StartLimitIntervalSec=0")
	if u.System {
		line("Wants=network-online.target")
		line("After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service")
	}
	line("")
	line("[Service]")
	line("Type=exec")
	if u.User != "" {
		line("User=%s", u.User)
	}
	directory, err := escapePath(u.Directory)
	if err != nil {
		return "", err
	}
	line("WorkingDirectory=%s", directory)
	for _, v := range u.Environment {
		quoted, err := quoteWord(v, false)
		if err != nil {
			return "", err
		}
		line("Environment=%s", quoted)
	}
	command, err := quoteCommand(u.Exe, u.Args)
	if err != nil {
		return "", err
	}
	line("ExecStart=%s", command)
	line("Restart=on-failure")
	line("RestartSec=180")
	line("SuccessExitStatus=129 130 143")
	line("RestartPreventExitStatus=2 4")
	line("KillMode=mixed")
	line("TimeoutStopSec=30")
	line("OOMPolicy=continue")
	line("StandardInput=null")
	line("")
	line("[Install]")
	if u.System {
		line("WantedBy=multi-user.target")
	} else {
		line("WantedBy=default.target")
	}
	return b.String(), nil
}

// Owner returns the owner of path, or of a path that this process would create, in the form of Unit.User: empty for
// root.
func Owner(path string) (string, error) {
	uid := os.Geteuid()
	info, err := os.Stat(path)
	if err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			uid = int(stat.Uid)
		}
	}
	if uid == 0 {
		return "", nil
	}
	owner, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", fmt.Errorf("who owns %s: %w", path, err)
	}
	return owner.Username, nil
}
