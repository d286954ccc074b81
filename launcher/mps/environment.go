package mps

import "strconv"

// MaxClients is how many CUDA contexts one MPS server holds on a GPU since Volta. Newer drivers hold a few more on some cards; this is
// what all of them do.
const MaxClients = 48

// mebibyte is what the driver takes M of a memory limit for (it shows 1024M as 1G).
const mebibyte = 1 << 20

// clientEnv is what a client needs beside CUDA_VISIBLE_DEVICES, which must name its one GPU by UUID. memory is the device memory that it may
// take with its CUDA context, in bytes, 0 without a limit: it is rounded down to whole MiB, of the client's own device 0. Every client may
// use all of the GPU's threads: while nodes generate and train by turns, a fixed part would leave threads idle.
func (d *daemon) clientEnv(memory int64) []string {
	env := []string{pipeVariable + "=" + d.pipe, logVariable + "=" + d.logs}
	if memory > 0 {
		env = append(env, memoryVariable+"=0="+strconv.FormatInt(max(1, memory/mebibyte), 10)+"M")
	}
	return env
}
