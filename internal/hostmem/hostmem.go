// Package hostmem reads the host memory that processes use, and how often the kernel has killed a process for lack
// of memory.
package hostmem

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Use is the memory of a process, in bytes. Resident (RSS) counts every page in full. Proportional (PSS) counts a
// page that n processes share as 1/n, so that the sum over processes is their total memory.
type Use struct{ Resident, Proportional int64 }

// Of returns the memory of a process, if we may read it (since Linux 4.14). The kernel walks the process's page
// tables, which takes milliseconds, so sample rarely.
func Of(pid int) (Use, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return Use{}, err
	}
	u, ok := parse(data)
	if !ok {
		return Use{}, fmt.Errorf("no proportional share in %.80q", data)
	}
	return u, nil
}

// Told reports whether this kernel provides the proportional memory of processes.
var Told = sync.OnceValue(func() bool {
	_, err := Of(os.Getpid())
	return err == nil
})

func parse(rollup []byte) (u Use, ok bool) {
	for line := range bytes.Lines(rollup) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "Rss":
			u.Resident, _ = kilobytes(value)
		case "Pss":
			u.Proportional, ok = kilobytes(value)
			return u, ok && u.Resident >= 0
		}
	}
	return u, false
}

func kilobytes(value []byte) (int64, bool) {
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
	return kib << 10, err == nil && kib >= 0 && kib < 1<<50
}

// ThreadTime returns the processor time that the calling thread has used. A caller that is locked to its thread
// measures the cost of reading with it.
func ThreadTime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
