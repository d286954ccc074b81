package policy

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNoPython is returned by FindPython if no candidate can import torch.
var ErrNoPython = errors.New("no Python with PyTorch found")

// probeLimit bounds one candidate's import of torch, from a cold disk.
const probeLimit = 90 * time.Second

// Probe is the result of trying one interpreter.
type Probe struct {
	Path   string `json:"path"`
	Source string `json:"source"` // why it was tried
	Torch  string `json:"torch"`  // torch's version, empty if the import failed
	CUDA   bool   `json:"cuda"`   // torch was built for CUDA
	Err    string `json:"error,omitempty"`
}

// FindPython returns the first interpreter that can import torch, and every probe on the way. The order is:
// explicit (--python; no others if given), $SWARM_PYTHON (no others if given), an active virtual environment,
// <home>/venv, then python3 on PATH and /usr/bin/python3. It never runs ./.venv of the current folder, because
// another user may own the folder.
//
// probe tries one interpreter; nil: ProbePython.
func FindPython(ctx context.Context, explicit, home string, getenv func(string) string, probe func(context.Context, string) Probe) (Probe, []Probe, error) {
	if probe == nil {
		probe = ProbePython
	}
	var probes []Probe
	tried := map[string]bool{}
	for _, c := range candidates(explicit, home, getenv) {
		path, err := exec.LookPath(c.Path)
		if err != nil {
			if c.must {
				probes = append(probes, Probe{Path: c.Path, Source: c.Source, Err: "no such program"})
			}
			continue
		}
		// The engine runs in another folder, so the path must be absolute. Do not resolve links: an interpreter
		// finds its virtual environment by its name.
		if path, err = filepath.Abs(path); err != nil {
			return Probe{}, probes, fmt.Errorf("%s: %w", c.Path, err)
		}
		if tried[path] {
			continue
		}
		tried[path] = true
		found := probe(ctx, path)
		found.Source = c.Source
		probes = append(probes, found)
		if found.Torch != "" {
			return found, probes, nil
		}
		if ctx.Err() != nil {
			return Probe{}, probes, fmt.Errorf("look for Python: %w", context.Cause(ctx))
		}
	}
	if explicit == "" && getenv("SWARM_PYTHON") == "" {
		probes = append(probes, unasked(tried)...)
	}
	var tails []string
	for _, p := range probes {
		tails = append(tails, fmt.Sprintf("%s (%s): %s", p.Path, p.Source, p.Err))
	}
	if len(tails) == 0 {
		tails = []string{"there is no python3"}
	}
	return Probe{}, probes, fmt.Errorf("%w: %s", ErrNoPython, strings.Join(tails, "; "))
}

type candidate struct {
	Path, Source string
	must         bool // named by the user: report it if it does not exist
}

func candidates(explicit, home string, getenv func(string) string) []candidate {
	if explicit != "" {
		return []candidate{{explicit, "--python", true}}
	}
	if p := getenv("SWARM_PYTHON"); p != "" {
		return []candidate{{p, "$SWARM_PYTHON", true}}
	}
	var list []candidate
	if venv := getenv("VIRTUAL_ENV"); venv != "" {
		list = append(list, candidate{filepath.Join(venv, "bin", "python3"), "active virtual environment", true})
	}
	if conda := getenv("CONDA_PREFIX"); conda != "" {
		list = append(list, candidate{filepath.Join(conda, "bin", "python3"), "active conda environment", false})
	}
	return append(list,
		candidate{filepath.Join(home, "venv", "bin", "python3"), "swarm's own virtual environment", false},
		candidate{"python3", "PATH", false},
		candidate{"/usr/bin/python3", "system", false},
		candidate{"/usr/local/bin/python3", "system", false},
	)
}

// unasked returns the interpreter of ./.venv, if it exists and was not tried, without running it.
func unasked(tried map[string]bool) []Probe {
	const relative = ".venv/bin/python3"
	path, err := filepath.Abs(relative)
	if err != nil || tried[path] {
		return nil
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil
	}
	return []Probe{{Path: path, Source: "./.venv", Err: "not run without a request; to use it: --python " + relative}}
}

// ProbePython makes an interpreter import torch.
func ProbePython(ctx context.Context, path string) Probe {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	const script = "import torch,sys\nprint('torch', torch.__version__, int(torch.version.cuda is not None))"
	cmd := exec.CommandContext(ctx, path, "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = "/" // with -c Python imports from the current folder, which may hold a file named torch
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "torch" {
				return Probe{Path: path, Torch: f[1], CUDA: f[2] == "1"}
			}
		}
		return Probe{Path: path, Err: "it printed no torch version"}
	}
	if ctx.Err() != nil {
		return Probe{Path: path, Err: "importing torch took longer than " + probeLimit.String()}
	}
	reason := err.Error()
	if line := lastLine(stderr.String()); line != "" {
		reason = line
	}
	return Probe{Path: path, Err: reason}
}

// lastLine returns the last line, where Python states why an import failed.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
