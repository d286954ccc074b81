package coordinator

import (
	"context"
	"os"

	"github.com/shirou/gopsutil/v4/process"
)

// used are the resources of this process. Unknown values are 0.
type used struct {
	rss   int64 // bytes
	files int   // open descriptors
}

func resources(ctx context.Context) used {
	var u used
	self, err := process.NewProcessWithContext(ctx, int32(os.Getpid()))
	if err != nil {
		return u
	}
	if memory, err := self.MemoryInfoWithContext(ctx); err == nil {
		u.rss = int64(memory.RSS)
	}
	if files, err := self.NumFDsWithContext(ctx); err == nil {
		u.files = int(files)
	}
	return u
}
