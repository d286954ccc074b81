package attempt

import (
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// A command that writes this many lines after a shortage has survived it. A command that does not survive only writes
// tracebacks and last log messages. The limit is lower if the attempt was told to end.
const (
	survivedLines = 2000
	askedLines    = 200
)

// oomExit is the exit code of a shell, or of Slurm, for a killed program.
const oomExit = 128 + int(syscall.SIGKILL)

// judge decides whether a memory shortage ended the attempt. There are two such cases, unless the attempt succeeded or
// was stopped. First, the last failure in the output is a shortage that the command did not survive. Second, the
// kernel's out-of-memory killer has acted, and the command or a process that it waited for was killed. The scanner
// ignores failures that only repeat a shortage.
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
	case o.OOMKilled && (!short || !report.OnHost): // the kill came after everything in the output
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

// saysKilled reports whether the last failure is a killed worker, as DataLoader and torchrun report it.
func saysKilled(f *shortage.Fault) bool {
	return f != nil && f.Kind == "signal" && strings.Contains(strings.ToLower(f.Line), "kill")
}
