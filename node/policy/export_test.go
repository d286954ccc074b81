package policy

import "time"

// Impatient sets the interval of an engine's watch, and its wait for a process whose pipe has closed.
func Impatient(o Options, every time.Duration) Options {
	o.every, o.pipeGrace = every, 5*every
	return o
}

// Used is the processor time of a process.
func Used(pid int) time.Duration {
	p, _ := readProcess(pid)
	return p.used
}
