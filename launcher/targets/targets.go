// Package targets writes the files with which a cluster's own scheduler (Slurm, Kubernetes, SkyPilot) or Docker Compose
// starts workers: hosts that run swarm join. It owns their templates, what each scheduler takes for a value, and how a
// value is quoted there. It starts nothing, and the invitation, which lets anybody in who has it, stands in a file of
// its own that only its owner may read.
//
// What all of them rely on: swarm join stops in order on SIGTERM within StopSeconds, after a checkpoint, and goes on
// with the same --home; 0 means that the run is over, 2 a mistake that comes back every time, 4 that some nodes were
// given up and the others are through; 1, 3 and a kill may pass.
package targets

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/shell"
)

// Targets that files can be written for.
const (
	Slurm      = "slurm"
	Kubernetes = "kubernetes"
	SkyPilot   = "skypilot"
	Compose    = "compose"
)

// Bounds of a Spec.
const (
	MaxWorkers   = 1024 // membership.MaxWorkers
	MaxNameBytes = 19   // with -1023 after it what swarm join keeps of a name: 8 less than membership.MaxNameBytes
	maxGPUs      = 64
)

// StopSeconds is how long swarm join may take to stop in order.
const StopSeconds = 25

// DefaultImage holds Python and PyTorch for a container that swarm is mounted into. Its C library is new enough for a
// program built on Debian 12.
const DefaultImage = "pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime"

// Spec is what the workers are to be.
type Spec struct {
	Target  string
	Name    string // worker i is called Name-i
	Workers int
	Args    []string // more arguments of swarm join
	Nodes   string   // of each worker: auto or a number

	GPUs    int    // of each worker; 0: it trains on its CPU
	GPUType string // as the target calls it; empty: any
	CPUs    int
	Memory  int64 // bytes

	Invitation string // swarm join's; empty: Args say where the swarm is
	Dir        string // where the files will lie, absolute
	Program    string // absolute: swarm, where the target reads it

	Time      string // slurm: sbatch's --time
	Partition string // slurm
	Account   string // slurm
	Scratch   string // slurm: a folder on each machine's own disk; empty: $SLURM_TMPDIR, $TMPDIR or /tmp

	Image        string // kubernetes, compose, skypilot (docker:…)
	Namespace    string // kubernetes
	Storage      int64  // kubernetes: bytes of a worker's home
	StorageClass string // kubernetes

	Spot  bool   // skypilot
	Infra string // skypilot: cloud[/region[/zone]]
}

// File is one of the files.
type File struct {
	Name   string // within Spec.Dir; with a slash at its end an empty folder
	Mode   fs.FileMode
	Text   string
	Secret bool // it holds the invitation
}

// Names of files that others refer to.
const (
	invitationFile = "invitation"
	secretFile     = "secret.yaml"
)

// Files are the job files, the one to submit first. A *configs.Error names a value that the target doesn't take.
func (s Spec) Files() ([]File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	switch s.Target {
	case Slurm:
		return s.files(File{Name: "workers.slurm", Mode: 0o755}, File{Name: "logs/", Mode: 0o755})
	case Kubernetes:
		return s.files(File{Name: "workers.yaml", Mode: 0o644}, File{Name: secretFile, Mode: 0o600, Secret: true})
	case SkyPilot:
		return s.files(File{Name: "launch.sh", Mode: 0o755}, File{Name: "worker.yaml", Mode: 0o644})
	case Compose:
		return s.files(File{Name: "compose.yaml", Mode: 0o644})
	}
	return nil, fmt.Errorf("no files for %q", s.Target)
}

func (s Spec) files(list ...File) ([]File, error) {
	for i, f := range list {
		if f.Mode.IsRegular() && f.Name[len(f.Name)-1] != '/' {
			text, err := s.render(f.Name)
			if err != nil {
				return nil, err
			}
			list[i].Text = text
		}
	}
	if s.Invitation != "" && s.Target != Kubernetes { // there it is in the secret
		list = append(list, File{Name: invitationFile, Mode: 0o600, Text: s.Invitation + "\n", Secret: true})
	}
	return list, nil
}

// Next is what to type once the files lie in Dir.
func (s Spec) Next() string {
	at := func(name string) string { return shell.Quote(s.Dir + "/" + name) }
	switch s.Target {
	case Slurm:
		return "sbatch " + at("workers.slurm")
	case Kubernetes:
		return "kubectl apply -f " + shell.Quote(s.Dir)
	case SkyPilot:
		return at("launch.sh")
	}
	return "docker compose -f " + at("compose.yaml") + " up -d"
}

// Indices are the workers' numbers, from 0.
func (s Spec) Indices() []int {
	list := make([]int, s.Workers)
	for i := range list {
		list[i] = i
	}
	return list
}

// Last is the last worker's number.
func (s Spec) Last() int { return s.Workers - 1 }

// Worker is the name of worker i.
func (s Spec) Worker(i int) string { return s.Name + "-" + strconv.Itoa(i) }

// MiB are bytes as schedulers count them, rounded up.
func (s Spec) MiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// GiB likewise.
func (s Spec) GiB(bytes int64) int64 { return (bytes + 1<<30 - 1) >> 30 }

// Device is swarm join's --device. It is said aloud: a machine whose driver is late must fail, not train on its CPU.
func (s Spec) Device() string {
	if s.GPUs == 0 {
		return "cpu"
	}
	return "cuda"
}

// GPUIDs are the cards of worker i on a host that has all of them.
func (s Spec) GPUIDs(i int) []string {
	var ids []string
	for g := range s.GPUs {
		ids = append(ids, strconv.Itoa(i*s.GPUs+g))
	}
	return ids
}
