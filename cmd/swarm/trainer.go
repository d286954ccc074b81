package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// trainer is somebody's own program in place of `swarm node`: it speaks the same protocol on stdin and stdout (notebooks-bridge's
// swarm_bridge.Node does), and is started, watched, restarted, leased and recorded as a node is.
type trainer struct {
	command string      // a line for /bin/sh; empty: nodes are this program's
	memory  sizeFlag    // what one of them takes of a GPU, or of the host without one
	given   func() bool // --node-command was given, if only an empty one; nil: it can't be
}

func (t *trainer) add(f *pflag.FlagSet) {
	t.given = func() bool { return f.Changed("node-command") }
	f.StringVar(&t.command, "node-command", "", "run `COMMAND` as every node, instead of SAPO: a trainer of one's own that reports through swarm_bridge.Node")
	f.Var(&t.memory, "node-memory", "memory that one node of --node-command takes, a `size` such as 6GB (default: as the experiment's model)")
}

// trainerModel is what a trainer's model is called where nothing is known of it.
const trainerModel = "trainer"

// shell runs a trainer's command.
const shell = "/bin/sh"

func (t *trainer) check() error {
	if t.command == "" && t.memory.given {
		return fail.Usage(errors.New("--node-memory is for --node-command: swarm knows what its own nodes take"), "swarm up --help")
	}
	if t.command == "" && (t.given == nil || !t.given()) {
		return nil
	}
	if strings.TrimSpace(t.command) == "" || strings.ContainsRune(t.command, 0) {
		return fail.Usage(errors.New("--node-command is empty"), `--node-command "python3 train.py"`)
	}
	if _, err := exec.LookPath(shell); err != nil {
		return fail.Usage(err, "a system with "+shell+", which runs --node-command")
	}
	_, err := t.memory.bytes("node-memory")
	return err
}

// footprint is what a node takes as its user says; nil where they say nothing.
func (t *trainer) footprint() *fit.Measured {
	bytes, err := t.memory.bytes("node-memory")
	if err != nil || bytes == 0 {
		return nil
	}
	return &fit.Measured{Resident: bytes, Origin: fit.OriginTold}
}

// simple matches a command of a program and plain arguments, which a shell may become.
var simple = regexp.MustCompile(`^\s*[\w./-]+(\s+[^;&|<>()$` + "`" + `\n{}!]*)?$`)

// trainerInput names the command among a run's inputs; a run of this program's own nodes has none.
const trainerInput = "--node-command"

// inputs stand for the command where a run's inputs are compared.
func (t *trainer) inputs() map[string]string {
	sum := sha256.Sum256([]byte(t.command))
	return map[string]string{trainerInput: hex.EncodeToString(sum[:])}
}

// foreignNodes refuses a run whose nodes this program can't make again: a --node-command's, and one that was imported.
func foreignNodes(run store.Run) error {
	if run.Imported() {
		return fail.Usage(fmt.Errorf("run %s was imported: its nodes' weights and journals are not here", run.Run), "swarm status "+run.Run)
	}
	var made versions
	if err := json.Unmarshal(run.Versions, &made); err == nil && made.Inputs[trainerInput] != "" {
		return fail.Usage(fmt.Errorf("the nodes of run %s are those of a --node-command: swarm knows no weights or journals of theirs", run.Run),
			"swarm status "+run.Run)

	}
	return nil
}

// process is what to start as a node: the program itself, or the trainer's command.
func (t *trainer) process(self string, args []string) (exe string, argv, env []string) {
	if t.command == "" {
		return self, args, nil
	}
	command := t.command
	if simple.MatchString(command) {
		command = "exec " + command // the node's pid is the trainer's, not a shell's
	}
	return shell, []string{"-c", command}, []string{"SWARM_NODE=1"}
}
