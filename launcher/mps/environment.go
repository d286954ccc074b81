package mps

import "strconv"

// MaxClients is the number of CUDA contexts that one MPS server holds on a GPU since Volta. Newer drivers hold a few
// more on some cards. 48 works on all of them.
const MaxClients = 48

// mebibyte is the driver's meaning of M in a memory limit (it shows 1024M as 1G).
const mebibyte = 1 << 20

// clientEnv returns the environment that a client needs beside CUDA_VISIBLE_DEVICES, which must name the client's GPU
// by UUID. The argument memory limits the client's device memory in bytes, CUDA context included, rounded down to
// whole MiB. A memory of 0 sets no limit. Each client may use all threads of the GPU, because a fixed share would
// idle whenever its node does.
func (d *daemon) clientEnv(memory int64) []string {
	env := []string{pipeVariable + "=" + d.pipe, logVariable + "=" + d.logs}
	if memory > 0 {
		env = append(env, memoryVariable+"=0="+strconv.FormatInt(max(1, memory/mebibyte), 10)+"M")
	}
	return env
}
