package background

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
)

// detachedEnv marks the copy of this program that runs in the background. Enter removes it from the environment.
const detachedEnv = "_SWARM_DETACHED"

// announceFD is the file descriptor on which the copy reports that its work has begun.
const announceFD = 3

// Announcement is the output of up --detach -o json. The copy in the background sends it to its starter as one
// line.
type Announcement struct {
	Experiment string `json:"experiment,omitempty"`
	Run        string `json:"run,omitempty"`
	Job        string `json:"job,omitempty"` // of swarm run, which has no experiment
	PID        int    `json:"pid"`
	Log        string `json:"log"` // path; rotated to .1
	Dashboard  string `json:"dashboard,omitempty"`
	Join       string `json:"join,omitempty"` // the command with which other hosts join

	// Files that hold the secrets in Dashboard and Join.
	DashboardTokenFile string `json:"dashboard_token_file,omitempty"`
	JoinFile           string `json:"join_file,omitempty"`
}

// Public returns the announcement without secrets, for places that others can read. Dashboard loses its token, and
// Join names the invitation's file instead of the invitation.
func (a Announcement) Public() Announcement {
	if address, err := url.Parse(a.Dashboard); err == nil {
		address.RawQuery = ""
		a.Dashboard = address.String()
	}
	if a.JoinFile != "" {
		a.Join = "swarm join --url-file " + shell.Quote(a.JoinFile)
	}
	return a
}

// Enter returns the console of the copy that runs in the background, or nil in any other process. The copy must
// call Enter before it starts a child: Enter ignores SIGHUP from then on, and keeps the marking variable and the
// announcement pipe from children.
func Enter() *Console {
	if os.Getenv(detachedEnv) == "" {
		return nil
	}
	os.Unsetenv(detachedEnv)
	var info unix.Stat_t
	if unix.Fstat(announceFD, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil // the user set the variable
	}
	unix.CloseOnExec(announceFD)
	signal.Ignore(syscall.SIGHUP)
	return new(Console)
}

// Announce moves the output of a command in the background to a.Log and tells its starter that the work has begun.
// Call it once everything that the announcement names is recorded.
func (c *Console) Announce(a Announcement) error {
	if err := c.open(a.Log); err != nil {
		return err
	}
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the announcement: %w", err)
	}
	pipe := os.NewFile(announceFD, "announcement")
	defer pipe.Close()
	_, _ = pipe.Write(append(line, '\n')) // the work goes on if the starter has gone
	return nil
}

// Start runs this command again in a session of its own and waits for its announcement. Until then the copy writes
// to this process's output, and Start passes signals on to it. If the copy ends first, the announcement is nil, and
// the error has the copy's exit code if that is not 0. args are the command's arguments without secrets, because
// others can read them. environ is added to the copy's environment.
func Start(args []string, environ ...string) (*Announcement, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	defer read.Close()
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(append(os.Environ(), environ...), detachedEnv+"=1")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{write} // becomes announceFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	err = cmd.Start()
	write.Close()
	if err != nil {
		return nil, fmt.Errorf("start in the background: %w", err)
	}
	a, stopped := awaitAnnouncement(read, signals, cmd.Process)
	if a != nil && !stopped {
		return a, cmd.Process.Release()
	}
	return nil, endedEarly(cmd.Wait())
}

// awaitAnnouncement reads the announcement, or returns nil if the process ends without one. It passes signals on to
// the process meanwhile. stopped reports whether there were any.
func awaitAnnouncement(read *os.File, signals <-chan os.Signal, process *os.Process) (a *Announcement, stopped bool) {
	told := make(chan *Announcement, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadBytes('\n')
		var a Announcement
		if json.Unmarshal(line, &a) != nil {
			told <- nil
			return
		}
		told <- &a
	}()
	for {
		select {
		case a := <-told:
			return a, stopped
		case s := <-signals:
			stopped = true
			_ = process.Signal(s) // it may just have ended
		}
	}
}

// endedEarly returns the error for a copy that ended before its work began. The copy has printed the reason, unless
// a signal killed it.
func endedEarly(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		if s := status.Signal(); s == syscall.SIGINT || s == syscall.SIGTERM {
			return fail.Exit(fail.ExitSignal + int(s))
		}
		return fmt.Errorf("the background process was ended by signal %d (%s) before its work began", status.Signal(), status.Signal())
	}
	return fail.Exit(exit.ExitCode())
}

// Write prints what runs in the background, and how to watch it, read its log and stop it. program is the program's
// name as this user types it.
func (a *Announcement) Write(out io.Writer, program string) error {
	var b strings.Builder
	name, watch := a.Run, "attach "
	if a.Job != "" {
		name, watch = a.Job, "status "
	}
	fmt.Fprintf(&b, "%s runs in the background, process %d.\n", name, a.PID)
	for _, line := range [][2]string{{"watch", watch}, {"logs", "logs -f "}, {"stop", "down "}} {
		fmt.Fprintf(&b, "%-6s %s %s%s\n", line[0], program, line[1], name)
	}
	if a.Dashboard != "" {
		fmt.Fprintf(&b, "page   %s\n", a.Dashboard)
	}
	if a.Join != "" {
		fmt.Fprintf(&b, "join   %s\n", a.Join)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
