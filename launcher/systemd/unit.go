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

// Unit is a service that keeps one swarm up going: systemd starts it at boot, and again after it crashed.
type Unit struct {
	Name        string // DefaultName, or as UnitName makes it
	System      bool   // of the machine rather than of a user
	User        string // whom a system's unit runs as; empty: root
	Directory   string // absolute
	Exe         string // absolute
	Args        []string
	Environment []string // KEY=value
	Secrets     Secrets  // what of the arguments is in files
}

// names are those that a service may have; systemd allows a few more characters.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// DefaultName is the unit of the service that has no name of its own.
const DefaultName = "swarm.service"

// UnitName is the unit of the service called name. ok tells whether name is a good one: letters, digits, _ . and -, at
// most 64, of which the first is a letter or digit.
func UnitName(name string) (unit string, ok bool) {
	return "swarm-" + strings.TrimSuffix(name, ".service") + ".service", names.MatchString(name)
}

// Command is what a unit runs: this program, with this home and Python.
type Command struct {
	Home    string // absolute
	Python  string // program; empty: not given
	Verbose bool
	Verb    string // up, join
	Args    []string
	Device  string // for an up that names none; empty: none
}

// NewUnit makes the unit that runs a command in the present folder. left are variables of the environment that the unit
// does not keep.
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

// absoluteProgram is where a program is.
func absoluteProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fail.Usage(fmt.Errorf("--python %s: %w", name, err), "the path of a python3 that has torch")
	}
	return filepath.Abs(path)
}

// Text is the unit file, as systemd.service(5) and systemd.syntax(7) want it.
//
// Exit codes: 0 and a stop by signal (130, 143; 129 when the terminal hung up) are an orderly end, after which it stays
// down until the next boot or start. 2 is a mistake that comes back every time, and 4 an end too: some nodes were given
// up, the others have done their rounds. 1 and 3 may pass (a disk that was full, a GPU that another took, a driver that
// is not up yet), and a kill always does: it starts again, at most burst times in an hour. An error is for what no unit
// file can hold.
func (u Unit) Text() (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", mark)
	line("[Unit]")
	line("Description=swarm up (%s)", strings.TrimSuffix(u.Name, ".service"))
	line("StartLimitIntervalSec=1h")
	line("StartLimitBurst=%d", burst)
	if u.System {
		line("Wants=network-online.target")
		line("After=network-online.target nvidia-persistenced.service")
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
	line("RestartSec=30")
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

// burst is how often in an hour a service starts: with 30 s between, enough for 10 minutes of a driver that is not up
// yet.
const burst = 20

// Owner is who owns path, or would if this process made it, in the form of Unit.User: empty for root.
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
