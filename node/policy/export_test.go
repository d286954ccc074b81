package policy

import "time"

// Impatient makes an engine's watch look that often, and wait for pipes to be closed properly that long.
func Impatient(o Options, every time.Duration) Options {
	o.every, o.pipeGrace = every, 5*every
	return o
}

// Used is the processor time that a process has taken.
func Used(pid int) time.Duration {
	p, _ := readProcess(pid)
	return p.used
}
