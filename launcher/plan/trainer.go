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

// Trainer is somebody's own program in place of `swarm node`: it speaks the same protocol on stdin and stdout
// (notebooks-bridge's swarm_bridge.Node does), and is started, watched, restarted, leased and recorded as a node is.
type Trainer struct {
	Command string      // a line for /bin/sh; empty: nodes are this program's
	Memory  Size        // what one of them takes of a GPU, or of the host without one
	Given   func() bool // --node-command was given, if only an empty one; nil: it can't be
}

// TrainerModel is what a trainer's model is called where nothing is known of it.
const TrainerModel = "trainer"

// shell runs a trainer's command.
const shell = "/bin/sh"

func (t *Trainer) check() error {
	if t.Command == "" && t.Memory.Given {
		return fail.Usage(errors.New("--node-memory is for --node-command: swarm knows what its own nodes take"), "swarm up --help")
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

// footprint is what a node takes as its user says; nil where they say nothing.
func (t *Trainer) footprint() *fit.Measured {
	bytes, err := t.Memory.Bytes("node-memory")
	if err != nil || bytes == 0 {
		return nil
	}
	return &fit.Measured{Resident: bytes, Origin: fit.OriginTold}
}

// simple matches a command of a program and plain arguments, which a shell may become.
var simple = regexp.MustCompile(`^\s*[\w./-]+(\s+[^;&|<>()$` + "`" + `\n{}!]*)?$`)

// TrainerInput names the command among a run's inputs; a run of this program's own nodes has none.
const TrainerInput = "--node-command"

// Inputs stand for the command where a run's inputs are compared.
func (t *Trainer) Inputs() map[string]string {
	sum := sha256.Sum256([]byte(t.Command))
	return map[string]string{TrainerInput: hex.EncodeToString(sum[:])}
}

// Process is what to start as a node: the program itself, or the trainer's command.
func (t *Trainer) Process(self string, args []string) (exe string, argv, env []string) {
	if t.Command == "" {
		return self, args, nil
	}
	command := t.Command
	if simple.MatchString(command) {
		command = "exec " + command // the node's pid is the trainer's, not a shell's
	}
	return shell, []string{"-c", command}, []string{"SWARM_NODE=1"}
}
