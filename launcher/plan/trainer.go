package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os/exec"
	"regexp"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Trainer is a user's program in place of `swarm node`. It speaks the same protocol on stdin and stdout (as
// notebooks-bridge's swarm_bridge.Node does). swarm starts, watches, restarts, leases and records it like a node.
type Trainer struct {
	Command string // a line for /bin/sh; empty: use swarm node
	Memory  Size   // memory of one trainer on a GPU, or on the host without a GPU
	// reports whether --node-command was set, possibly to an empty text; nil: the command has no such flag
	Given func() bool
}

// TrainerModel is the model name of a trainer whose model is unknown.
const TrainerModel = "trainer"

// shell runs a trainer's command.
const shell = "/bin/sh"

func (t *Trainer) check() error {
	if t.Command == "" && t.Memory.Given {
		return fail.Usage(errors.New("--node-memory needs --node-command: swarm knows the memory of its own nodes"), "swarm up --help")
	}
	if t.Command == "" && (t.Given == nil || !t.Given()) {
		return nil
	}
	if strings.TrimSpace(t.Command) == "" || strings.ContainsRune(t.Command, 0) {
		return fail.Usage(errors.New("--node-command is empty"), `--node-command "python3 train.py"`)
	}
	if _, err := exec.LookPath(shell); err != nil {
		return fail.Usage(err, "a system with "+shell+", which runs --node-command")
	}
	_, err := t.Memory.Bytes("node-memory")
	return err
}

// footprint returns the memory of a node as the user specified it, or nil.
func (t *Trainer) footprint() *fit.Measured {
	bytes, err := t.Memory.Bytes("node-memory")
	if err != nil || bytes == 0 {
		return nil
	}
	return &fit.Measured{Resident: bytes, Origin: fit.OriginTold}
}

// simple matches a command that consists of a program and plain arguments. The shell can replace itself with such a
// command.
var simple = regexp.MustCompile(`^\s*[\w./-]+(\s+[^;&|<>()$` + "`" + `\n{}!]*)?$`)

// TrainerInput is the key of the command among a run's inputs. Runs of swarm's own nodes do not have it.
const TrainerInput = "--node-command"

// Inputs returns a hash of the command, for comparing a run's inputs.
func (t *Trainer) Inputs() map[string]string {
	sum := sha256.Sum256([]byte(t.Command))
	return map[string]string{TrainerInput: hex.EncodeToString(sum[:])}
}

// Process returns what to start as a node: this program, or the trainer's command.
func (t *Trainer) Process(self string, args []string) (exe string, argv, env []string) {
	if t.Command == "" {
		return self, args, nil
	}
	command := t.Command
	if simple.MatchString(command) {
		command = "exec " + command // so that the node's pid is the trainer's, not a shell's
	}
	return shell, []string{"-c", command}, []string{"SWARM_NODE=1"}
}
