package mps

import "strconv"

// MaxClients is how many CUDA contexts one MPS server holds on a GPU since Volta. Newer drivers hold a few more on some
// cards; this is what all of them do.
const MaxClients = 48

// mebibyte is what the driver takes M of a memory limit for (it shows 1024M as 1G).
const mebibyte = 1 << 20

// clientEnv is what a client needs beside CUDA_VISIBLE_DEVICES, which must name its one GPU by UUID. memory is the
// device memory in bytes that it may take, with its CUDA context. It is rounded down to whole MiB, and 0 sets no limit.
// Each client may use all threads of the GPU: a fixed part would stand idle while its node does something else.
func (d *daemon) clientEnv(memory int64) []string {
	env := []string{pipeVariable + "=" + d.pipe, logVariable + "=" + d.logs}
	if memory > 0 {
		env = append(env, memoryVariable+"=0="+strconv.FormatInt(max(1, memory/mebibyte), 10)+"M")
	}
	return env
}
