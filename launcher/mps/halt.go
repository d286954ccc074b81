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

// halt asks the daemon to quit, waits, and kills what is then left of it and its servers, which may outlive it.
func (d *daemon) halt(ctx context.Context) error {
	all := serving(d.pipe)
	if d.id.Alive() && !slices.Contains(all, d.id) {
		all = append(all, d.id)
	}
	// Without a timeout of its own quit would wait for clients that hang. Its answer is no news: what counts is who is
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
	return fmt.Errorf("mps: control daemon %d or a server of it: %w", d.id.PID, supervise.ErrUnkillable)
}

// serving names the daemon and the servers of a pipe directory, by their programs and the environment that the daemon
// was started with and handed on. A daemon that hangs, or was killed, can't be asked for them.
func serving(pipe string) []supervise.Identity {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil // a bad pattern alone
	}
	var found []supervise.Identity
	for _, path := range entries {
		env, err := os.ReadFile(path) // another user's can't be read
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

// goneWithin waits for the end of processes that are no children of ours.
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

// kill kills exactly that process: the handle is taken before the identity is checked, so that the pid can't change
// hands in between.
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
		_ = p.Signal(syscall.SIGKILL) // fails where it has just ended
	}
}

// pause waits, or returns why it may not.
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
