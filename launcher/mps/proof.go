package mps

import (
	"bufio"
	"context"
	_ "embed" // canary.py
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed canary.py
var canaryScript []byte

const (
	canaryLimit  = 2 << 30        // bytes; leaves space for a CUDA context, which counts too
	canarySmall  = 16 << 20       // must be granted
	canaryLarge  = 2<<30 + 64<<20 // must be refused
	canaryNeeds  = 3 << 30        // free on the card: canaryLarge, and contexts of client and server. Then only the limit can refuse
	canaryLowest = canaryLimit / 2
	listedPause  = 100 * time.Millisecond
)

// Kind classifies a Finding.
type Kind string

// Kinds of Finding.
const (
	NotAClient   Kind = "not_a_client"  // it uses the GPU, but not through the daemon: CUDA falls back silently
	LimitIgnored Kind = "limit_ignored" // it got more memory than its limit
	CardFull     Kind = "card_full"     // others use so much that a limit looks like a full card
	CanaryFailed Kind = "canary_failed" // the canary did not run to its end
)

// Finding shows that MPS does not work as required.
type Finding struct {
	Kind    Kind
	GPU     int
	PID     int
	Message string // one line
}

func (f *Finding) Error() string {
	return fmt.Sprintf("MPS on GPU %d: %s (%s). Try: --share lease", f.GPU, f.Message, f.Kind)
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (f *Finding) Is(target error) bool { return target == ErrUnavailable }

// prove runs the canary, a client with its own limit. The canary must be listed, get memory below its limit and be
// refused beyond it, on a card that has the memory. The error is a *Finding, or the reason why the canary did not
// start.
func (d *daemon) prove(ctx context.Context, g GPU, python string) error {
	if g.MemoryFree < canaryNeeds {
		return &Finding{Kind: CardFull, GPU: g.Index, Message: fmt.Sprintf(
			"too little memory is free to distinguish a limit from a full GPU: %d bytes, but the test takes %d", g.MemoryFree, int64(canaryNeeds))}
	}
	script := filepath.Join(d.logs, "canary.py")
	if err := os.WriteFile(script, canaryScript, 0o600); err != nil {
		return fmt.Errorf("mps: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.control.pace.canary)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script, strconv.Itoa(canarySmall), strconv.Itoa(canaryLarge))
	cmd.Env = append(slices.Clone(d.control.env), d.clientEnv(canaryLimit)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error {
		d.terminate(context.WithoutCancel(ctx), []int{cmd.Process.Pid})
		return cmd.Process.Kill()
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("mps: canary: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("mps: canary: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("mps: canary: %w", err)
	}
	finding := d.converse(ctx, cmd.Process.Pid, stdin, bufio.NewReader(stdout))
	stdin.Close()
	if err := cmd.Wait(); err != nil && finding == nil {
		finding = &Finding{Kind: CanaryFailed, Message: "the test process ended with " + err.Error()}
	}
	if finding == nil {
		return nil
	}
	finding.GPU, finding.PID = g.Index, cmd.Process.Pid
	return finding
}

// converse runs the canary's protocol. See canary.py.
func (d *daemon) converse(ctx context.Context, pid int, stdin io.Writer, stdout *bufio.Reader) *Finding {
	line, err := stdout.ReadString('\n')
	line = strings.TrimSpace(line)
	var free int64 // as the driver reports it: the rest of the limit, or of the card if that is less
	if n, _ := fmt.Sscanf(line, "ready %d", &free); n != 1 {
		return &Finding{Kind: CanaryFailed, Message: "the test process got no memory below its limit: " + oneLine(line, err)}
	}
	listed, err := d.listed(ctx, pid)
	if err != nil {
		return &Finding{Kind: CanaryFailed, Message: oneLine("", err)}
	}
	if !listed {
		return &Finding{Kind: NotAClient, Message: "a swarm process opened the GPU without becoming an MPS client: " + oneLine(d.lastWords(), nil)}
	}
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		return &Finding{Kind: CanaryFailed, Message: oneLine("", err)}
	}
	line, err = stdout.ReadString('\n')
	return verdict(free, strings.TrimSpace(line), err)
}

// verdict judges the canary's results: the free memory that the driver reported under the limit, and the answer to
// the request beyond it. Both must show the limit. A refusal alone may come from a card that has just been filled.
func verdict(free int64, answer string, err error) *Finding {
	switch {
	case answer == "allowed":
		return &Finding{Kind: LimitIgnored, Message: fmt.Sprintf("a client with a limit of %d bytes got another %d bytes", canaryLimit, canaryLarge)}
	case answer != "refused":
		return &Finding{Kind: CanaryFailed, Message: "the test process says: " + oneLine(answer, err)}
	case free > canaryLimit:
		return &Finding{Kind: CanaryFailed, Message: fmt.Sprintf(
			"the driver reports %d free bytes to a client with a limit of %d, but refuses %d", free, canaryLimit, canaryLarge)}
	case free < canaryLowest:
		return &Finding{Kind: CardFull, Message: fmt.Sprintf("too little memory is free to distinguish a limit from a full GPU: %d bytes", free)}
	}
	return nil
}

// listed reports whether a process is a client or becomes one within pace.listed. It reads the whole client list at
// least once. The error is the reason why that failed.
func (d *daemon) listed(ctx context.Context, pid int) (bool, error) {
	for limit := time.Now().Add(d.control.pace.listed); ; {
		servers, err := d.control.servers(ctx)
		for _, s := range servers {
			if slices.Contains(s.clients, pid) {
				return true, nil
			}
		}
		if time.Now().After(limit) {
			return false, err
		}
		if err := pause(ctx, listedPause); err != nil {
			return false, err
		}
	}
}

// terminate makes the servers end the work of their clients among the processes. It returns the errors.
func (d *daemon) terminate(ctx context.Context, processes []int) error {
	ctx, cancel := context.WithTimeout(ctx, d.control.pace.ask)
	defer cancel()
	servers, err := d.control.servers(ctx)
	failures := []error{err}
	for _, s := range servers {
		for _, client := range s.clients {
			if slices.Contains(processes, client) {
				failures = append(failures, d.control.terminate(ctx, s.pid, client))
			}
		}
	}
	return errors.Join(failures...)
}
