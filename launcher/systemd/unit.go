package systemd

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
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
}

// names are those that a service may have; systemd allows a few more characters.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// DefaultName is the unit of the service that has no name of its own.
const DefaultName = "swarm.service"

// UnitName is the unit of the service called name. ok tells whether name is a good one: letters, digits, _ . and -, at most 64, of which
// the first is a letter or digit.
func UnitName(name string) (unit string, ok bool) {
	return "swarm-" + strings.TrimSuffix(name, ".service") + ".service", names.MatchString(name)
}

// Text is the unit file, as systemd.service(5) and systemd.syntax(7) want it.
//
// Exit codes: 0 and a stop by signal (130, 143; 129 when the terminal hung up) are an orderly end, after which it stays down until the
// next boot or start. 2 is a mistake that comes back every time, and 4 an end too: some nodes were given up, the others have done
// their rounds. 1 and 3 may pass (a disk that was full, a GPU that another took, a driver that is not up yet), and a kill
// always does: it starts again, at most burst times in an hour. An error is for what no unit file can hold.
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

// burst is how often in an hour a service starts: with 30 s between, enough for 10 minutes of a driver that is not up yet.
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
