package mps

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// halt asks the daemon to quit, waits, and kills the remaining processes of the daemon and its servers. Servers may
// outlive their daemon.
func (d *daemon) halt(ctx context.Context) error {
	all := serving(d.pipe)
	if d.id.Alive() && !slices.Contains(all, d.id) {
		all = append(all, d.id)
	}
	// Without -t, quit would wait for clients that hang. The answer does not matter: halt checks which processes are
	// alive.
	patience := max(1, int(d.control.pace.ask.Seconds())-1)
	if _, err := d.control.ask(ctx, fmt.Sprintf("quit -t %d", patience)); err == nil && goneWithin(ctx, d.control.pace.quit, all) {
		return nil
	}
	for _, id := range all {
		kill(id)
	}
	if goneWithin(context.WithoutCancel(ctx), d.control.pace.kill, all) {
		return nil
	}
	return fmt.Errorf("mps: control daemon %d or one of its servers: %w", d.id.PID, supervise.ErrUnkillable)
}

// serving returns the daemon and the servers of a pipe directory. It finds them by their programs and by the
// environment that the daemon got at its start and passed on. A daemon that hangs or was killed can't be asked for
// its servers.
func serving(pipe string) []supervise.Identity {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil // possible for a bad pattern only
	}
	var found []supervise.Identity
	for _, path := range entries {
		env, err := os.ReadFile(path) // fails for another user's process
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), pipeVariable+"="+pipe) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !strings.Contains(string(command), programPrefix) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if id, err := supervise.Identify(pid); err == nil {
			found = append(found, id)
		}
	}
	return found
}

// goneWithin waits for the end of processes that are not children of this process. It reports whether all ended
// within limit.
func goneWithin(ctx context.Context, limit time.Duration, all []supervise.Identity) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		alive := false
		for _, id := range all {
			alive = alive || id.Alive()
		}
		if !alive {
			return true
		}
		if pause(ctx, pollPause) != nil {
			return false
		}
	}
}

// kill kills exactly that process. It opens the handle before it checks the identity, so that the pid can't be reused
// in between.
func kill(id supervise.Identity) {
	if id.PID <= 1 {
		return
	}
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return
	}
	defer p.Release()
	if id.Alive() {
		_ = p.Signal(syscall.SIGKILL) // fails if the process has just ended
	}
}

// pause waits for d, or returns the cause of ctx if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
