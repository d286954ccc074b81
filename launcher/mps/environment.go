package mps

import "strconv"

// MaxClients is how many CUDA contexts one MPS server holds on a GPU since Volta. Newer drivers hold a few more on some cards; this is
// what all of them do.
const MaxClients = 48

// mebibyte is what the driver takes M of a memory limit for (it shows 1024M as 1G).
const mebibyte = 1 << 20

// Client is what one client of a GPU may take.
type Client struct {
	MemoryBytes      int64 // device memory with its CUDA context; 0: no limit
	ThreadPercentage int   // of the GPU's threads; 0 or 100: all
}

// ThreadPercentage is each client's share of a GPU's threads when n clients share it: NVIDIA's 100 % / 0.5 n, which halves what a context
// reserves and leaves the scheduler room to overlap clients while others are idle. From one or two clients on it is all of them.
func ThreadPercentage(n int) int { return min(100, max(1, 200/max(1, n))) }

// environment is what a client needs beside CUDA_VISIBLE_DEVICES, which must name its one GPU by UUID. The memory limit is
// rounded down to whole MiB; the device in it is the client's own number 0.
func (c Client) environment(pipe, logs string) []string {
	env := []string{pipeVariable + "=" + pipe, logVariable + "=" + logs}
	if c.MemoryBytes > 0 {
		env = append(env, memoryVariable+"=0="+strconv.FormatInt(max(1, c.MemoryBytes/mebibyte), 10)+"M")
	}
	if c.ThreadPercentage > 0 && c.ThreadPercentage < 100 {
		env = append(env, threadsVariable+"="+strconv.Itoa(c.ThreadPercentage))
	}
	return env
}
