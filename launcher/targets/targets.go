// Package targets writes the files with which a cluster scheduler (Slurm, Kubernetes, SkyPilot) or Docker Compose
// starts workers: hosts that run swarm join. It owns the templates, and the valid values and quoting rules of each
// scheduler. It starts nothing. The invitation lets anyone who has it join the swarm, so it goes into a separate
// file that only its owner can read.
//
// All targets rely on this behavior of swarm join: on SIGTERM it writes a checkpoint and stops cleanly within
// StopSeconds. It continues with the same --home. Its exit code 0 means that the run is over, 2 a permanent mistake, 4
// that it gave up some nodes and the others are done. 1, 3 and a kill may be temporary.
package targets

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/shell"
)

// Values of Spec.Target.
const (
	Slurm      = "slurm"
	Kubernetes = "kubernetes"
	SkyPilot   = "skypilot"
	Compose    = "compose"
)

// Bounds of a Spec.
const (
	MaxWorkers = 1024 // membership.MaxWorkers
	// leaves space for "-1023" in the name that swarm join keeps: 8 less than membership.MaxNameBytes
	MaxNameBytes = 19
	maxGPUs      = 64
)

// StopSeconds is the maximum duration of an orderly stop of swarm join.
const StopSeconds = 25

// DefaultImage provides Python and PyTorch for a container that swarm is mounted into. Its C library is new enough
// for a program built on Debian 12.
const DefaultImage = "pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime"

// Spec describes the workers.
type Spec struct {
	Target  string
	Name    string // worker i has the name Name-i
	Workers int
	Args    []string // more arguments of swarm join
	Nodes   string   // per worker: auto or a number

	GPUs    int    // per worker; 0: train on the CPU
	GPUType string // the target's name for it; empty: any
	CPUs    int
	Memory  int64 // bytes

	Invitation string // for swarm join; empty: Args name the swarm
	Dir        string // folder of the files, absolute
	Program    string // absolute path of swarm on the target

	Time      string // slurm: sbatch's --time
	Partition string // slurm
	Account   string // slurm
	Scratch   string // slurm: a folder on each machine's local disk; empty: $SLURM_TMPDIR, $TMPDIR or /tmp

	Image        string // kubernetes, compose, skypilot (docker:…)
	Namespace    string // kubernetes
	Storage      int64  // kubernetes: bytes of a worker's home
	StorageClass string // kubernetes

	Spot  bool   // skypilot
	Infra string // skypilot: cloud[/region[/zone]]
}

// File is a file to write.
type File struct {
	Name   string // relative to Spec.Dir; an empty folder if it ends with a slash
	Mode   fs.FileMode
	Text   string
	Secret bool // contains the invitation
}

// Names of files that others refer to.
const (
	invitationFile = "invitation"
	secretFile     = "secret.yaml"
)

// Files returns the job files, starting with the one to submit. A *configs.Error names a value that the target does
// not accept.
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
	if s.Invitation != "" && s.Target != Kubernetes { // in Kubernetes the secret holds it
		list = append(list, File{Name: invitationFile, Mode: 0o600, Text: s.Invitation + "\n", Secret: true})
	}
	return list, nil
}

// Next returns the command to type once the files are in Dir.
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

// Indices returns the workers' numbers, from 0.
func (s Spec) Indices() []int {
	list := make([]int, s.Workers)
	for i := range list {
		list[i] = i
	}
	return list
}

// Last returns the last worker's number.
func (s Spec) Last() int { return s.Workers - 1 }

// Worker returns the name of worker i.
func (s Spec) Worker(i int) string { return s.Name + "-" + strconv.Itoa(i) }

// MiB converts bytes to MiB, rounded up.
func (s Spec) MiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// GiB converts bytes to GiB, rounded up.
func (s Spec) GiB(bytes int64) int64 { return (bytes + 1<<30 - 1) >> 30 }

// Device returns the value of --device for swarm join. It is explicit, so that a machine whose driver is not up yet
// fails instead of training on its CPU.
func (s Spec) Device() string {
	if s.GPUs == 0 {
		return "cpu"
	}
	return "cuda"
}

// GPUIDs returns the GPUs of worker i on a host that has the GPUs of all workers.
func (s Spec) GPUIDs(i int) []string {
	var ids []string
	for g := range s.GPUs {
		ids = append(ids, strconv.Itoa(i*s.GPUs+g))
	}
	return ids
}
