package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// unitMark is the first line of every unit that swarm writes; only files with it are replaced or removed.
const unitMark = "# Written by swarm service install; swarm service remove takes it away."

// unit is a systemd service that keeps one swarm up going: it starts it at boot, and again after it crashed.
type unit struct {
	name        string // swarm-NAME.service
	system      bool   // of the machine rather than of a user
	user        string // whom a system's unit runs as; empty: root
	directory   string // absolute
	exe         string // absolute
	args        []string
	environment []string // KEY=value
	gpu         bool     // it trains on a GPU
}

// unitNames are those that swarm service accepts; systemd allows a few more characters.
var unitNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// text is the unit file, as systemd.service(5) and systemd.syntax(7) want it.
//
// Exit codes: 0 and a stop by signal (130, 143; 129 when the terminal hung up) are an orderly end, after which it stays down until the
// next boot or start. 2 is a mistake that comes back every time, and 4 an end too: some nodes were given up, the others have done
// their rounds. 1 and 3 may pass (a disk that was full, a GPU that another took, a driver that is not up yet), and a kill
// always does: it starts again, at most unitBurst times in an hour.
func (u unit) text() (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", unitMark)
	line("[Unit]")
	line("Description=swarm up (%s)", strings.TrimSuffix(u.name, ".service"))
	line("StartLimitIntervalSec=1h")
	line("StartLimitBurst=%d", unitBurst)
	if u.system {
		line("Wants=network-online.target")
		line("After=network-online.target nvidia-persistenced.service")
	}
	line("")
	line("[Service]")
	line("Type=exec")
	if u.user != "" {
		line("User=%s", u.user)
	}
	directory, err := unitPath(u.directory)
	if err != nil {
		return "", err
	}
	line("WorkingDirectory=%s", directory)
	for _, v := range u.environment {
		quoted, err := unitWord(v, false)
		if err != nil {
			return "", err
		}
		line("Environment=%s", quoted)
	}
	command, err := unitCommand(u.exe, u.args)
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
	if u.system {
		line("WantedBy=multi-user.target")
	} else {
		line("WantedBy=default.target")
	}
	return b.String(), nil
}

// unitBurst is how often in an hour a service starts: with 30 s between, enough for 10 minutes of a driver that is not up yet.
const unitBurst = 20

// unitCommand is an ExecStart=. The program itself is not looked up in the environment, so that its dollars stay single.
func unitCommand(exe string, args []string) (string, error) {
	word, err := unitWord(exe, false)
	words := []string{word}
	for _, arg := range args {
		if err != nil {
			break
		}
		word, err = unitWord(arg, true)
		words = append(words, word)
	}
	return strings.Join(words, " "), err
}

// errUnitText is for text that no unit file can hold.
var errUnitText = errors.New("systemd takes valid UTF-8 without NUL only")

// unitWord quotes one word of a setting: what is in it stands for itself, whatever it is.
func unitWord(word string, inCommand bool) (string, error) {
	if !utf8.ValidString(word) || strings.ContainsRune(word, 0) {
		return "", fmt.Errorf("%q: %w", word, errUnitText)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range word {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '%':
			b.WriteString("%%")
		case r == '$' && inCommand:
			b.WriteString("$$")
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// unitPath writes a path where systemd takes the rest of the line as it is.
func unitPath(path string) (string, error) {
	plain := !strings.HasSuffix(path, `\`) && strings.TrimSpace(path) == path
	for _, r := range path {
		plain = plain && r >= ' ' && r != 0x7f && r != utf8.RuneError
	}
	if !plain {
		return "", fmt.Errorf("the folder %q can't stand in a systemd unit", path)
	}
	return strings.ReplaceAll(path, "%", "%%"), nil
}

// unitVariables are what a service keeps of the environment it was installed from, beside SWARM_…: what decides which Python, GPU and
// models swarm up finds. Nothing that is secret, such as HF_TOKEN, is among them.
var unitVariables = []string{
	"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_DATA_HOME", "XDG_CACHE_HOME",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TMPDIR",
	"EXPERIMENT_NAME", "NODE_ROLE", "NODE_ID", "MODEL_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS",
	"SEED", "GDRIVE_PATH",
}

// secretName finds variables that a file which others may read should not hold.
var secretName = regexp.MustCompile(`(?i)token|secret|password|passwd|credential|webhook|(^|_)key($|_)`)

// unitEnvironment chooses from environ, os.Environ's form. left are the names it leaves out though swarm would look at them.
func unitEnvironment(environ []string) (kept, left []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "SWARM_") && !slices.Contains(unitVariables, name) {
			if name == "HF_TOKEN" {
				left = append(left, name)
			}
			continue
		}
		if secretName.MatchString(name) {
			left = append(left, name)
			continue
		}
		kept = append(kept, v)
	}
	slices.Sort(kept)
	slices.Sort(left)
	return kept, left
}

// ownUnit tells whether there is a unit of ours at path; the error is for one of somebody else.
func ownUnit(path string) (there bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(string(data), unitMark) {
		return true, &hintError{fmt.Errorf("%s was not written by swarm", path), "another NAME"}
	}
	return true, nil
}
