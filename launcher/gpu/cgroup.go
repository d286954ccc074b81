package gpu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is a memory limit and the memory counted against the limit, in bytes, without reclaimable page cache.
type usage struct{ limit, used int64 }

// cgroupMemory returns the tightest memory limit over this process's cgroup and the cgroup's parents, version 2 or 1,
// below root. It returns false if there is none.
func cgroupMemory(root string) (usage, bool) {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return usage{}, false
	}
	var tightest usage
	found := false
	for line := range strings.Lines(string(data)) {
		// hierarchy:controllers:path; version 2 has no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, limitFile, usedFile, cacheKey := "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "
		if parts[1] == "memory" {
			base, limitFile, usedFile, cacheKey = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "
		} else if parts[1] != "" {
			continue
		}
		// In a container the path can be the host's, which isn't mounted. The walk always ends at the mount's root.
		for dir := filepath.Clean("/" + parts[2]); ; dir = filepath.Dir(dir) {
			at := filepath.Join(root, base, dir)
			limit, ok := readNumber(filepath.Join(at, limitFile))
			if ok && limit < 1<<60 { // version 1 writes "no limit" as a huge number
				used, _ := readNumber(filepath.Join(at, usedFile))
				u := usage{limit: limit, used: max(0, used-readStat(filepath.Join(at, "memory.stat"), cacheKey))}
				if !found || u.limit-u.used < tightest.limit-tightest.used {
					tightest, found = u, true
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return tightest, found
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil // "max" is not a number
}

func readStat(path, key string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}
