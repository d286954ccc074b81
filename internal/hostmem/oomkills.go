package hostmem

import (
	"bytes"
	"os"
	"strconv"
)

// OOMKills returns how often the kernel's out-of-memory killer has killed a process on this machine since boot,
// including kills by limits of control groups. It returns -1 if the kernel does not report it (before Linux 4.13).
// Reading is expensive: the kernel sums about 200 counters over all cores.
func OOMKills() int64 {
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return -1
	}
	return parseOOMKills(data)
}

func parseOOMKills(vmstat []byte) int64 {
	for line := range bytes.Lines(vmstat) {
		if value, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
