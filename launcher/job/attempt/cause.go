package attempt

import (
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// A command that goes on for so many lines after a shortage has dealt with it: one that it does not survive is followed
// by tracebacks and the farewells of loggers. It is fewer if the attempt was asked to end.
const (
	survivedLines = 2000
	askedLines    = 200
)

// oomExit is what a shell, or Slurm, exits with for a program that was killed.
const oomExit = 128 + int(syscall.SIGKILL)

// judge says whether memory ended the attempt. It did where the attempt failed without having been stopped, and the
// last failure that the output tells of is a shortage which the command did not survive; or where the kernel's
// out-of-memory killer has struck and the command, or what it waited for, was killed. The scanner leaves out failures
// that only echo a shortage.
func (o *Outcome) judge(read *shortage.Scanner, kernelKills int64) {
	if o.Stopped || o.ExitCode == 0 {
		return
	}
	report, short := read.Shortage()
	if fault, failed := read.Fault(); failed {
		o.Fault = &fault
	}
	killed := o.Signal == syscall.SIGKILL || o.ExitCode == oomExit || saysKilled(o.Fault) || short && report.Kind == shortage.HostKilled
	o.OOMKilled = kernelKills > 0 && killed
	after := int64(survivedLines)
	if o.Signal == syscall.SIGTERM || o.Signal == syscall.SIGINT || o.Signal == syscall.SIGHUP {
		after = askedLines
	}
	short = short && (o.Fault == nil || o.Fault.LineNumber < report.LineNumber) && read.Lines()-report.LineNumber <= after
	switch {
	case o.OOMKilled && (!short || !report.OnHost): // which is later than anything it could say
		o.Shortage = &shortage.Report{
			Kind: shortage.HostKilled, OnHost: true, GPU: -1, Line: "killed by the kernel's out-of-memory killer", LineNumber: read.Lines(), Times: 1,
		}
	case short:
		o.Shortage = &report
	}
	if o.Shortage != nil {
		o.Fault = nil
	}
}

// saysKilled tells whether the last failure was that a worker was killed, as DataLoader and torchrun report it.
func saysKilled(f *shortage.Fault) bool {
	return f != nil && f.Kind == "signal" && strings.Contains(strings.ToLower(f.Line), "kill")
}
