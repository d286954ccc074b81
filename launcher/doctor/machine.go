package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/shirou/gopsutil/v4/disk"
)

// checkHome writes a file in the home and checks the free disk space.
func checkHome(home layout.Home, least uint64) Finding {
	f := Finding{Check: "home", Found: string(home)}
	if err := home.Make(); err != nil {
		f.Found, f.Try = err.Error(), fail.Remedy(err)
		return f
	}
	probe, err := os.CreateTemp(string(home), ".doctor-*")
	if err != nil {
		f.Found, f.Try = err.Error(), "another --home, or fix the folder's permissions"
		return f
	}
	probe.Close()
	os.Remove(probe.Name())
	usage, err := disk.Usage(string(home))
	if err != nil {
		f.Found, f.Try = err.Error(), "another --home"
		return f
	}
	f.OK = usage.Free > least
	f.Found = fmt.Sprintf("%s, %s free", home, units.Bytes(int64(usage.Free)))
	if !f.OK {
		f.Try = "free some space, or put --home on another disk"
		return f
	}
	if info, err := os.Stat(string(home)); err == nil && info.Mode().Perm()&0o077 != 0 {
		f.Found += ", and other users can read it"
		f.Try = "chmod 700 " + shell.Quote(string(home))
	}
	return f
}

// checkDatabase counts the runs in the database.
func checkDatabase(ctx context.Context, o Options) Finding {
	f := Finding{Check: "database", OK: true}
	reader, err := store.OpenReader(ctx, o.Home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		f.Found = "none yet"
		return f
	}
	if err == nil {
		defer reader.Close()
		runs, queryErr := reader.Runs(ctx, store.Filter{})
		err = queryErr
		f.Found = o.Home.Database() + ", " + units.Plural(len(runs), "run")
	}
	if err != nil {
		f.OK, f.Found, f.Try = false, err.Error(), o.Remedy(err)
	}
	return f
}

// checkHost reports memory, GPUs and whether MPS can share them.
func checkHost(host gpu.Host) []Finding {
	list := []Finding{{Check: "host", OK: true, Found: fmt.Sprintf("%s, %s of memory, %s free", units.Plural(host.Cores, "core"), units.Bytes(host.MemoryTotal), units.Bytes(host.MemoryAvailable))}}
	for _, d := range host.GPUs {
		f := Finding{Check: "GPU " + fmt.Sprint(d.Index), OK: !d.MIG, Found: fmt.Sprintf("%s, %s, %s free, driver %s", d.Name, units.Bytes(d.MemoryTotal), units.Bytes(d.MemoryFree), host.Driver)}
		if d.Unified {
			f.Found += ", shares the host's memory"
		}
		if d.MIG {
			f.Found += ", split into MIG instances"
			f.Try = "sudo nvidia-smi -mig 0"
		}
		list = append(list, f)
	}
	if f, ok := checkMPS(host); ok {
		list = append(list, f)
	}
	if len(host.GPUs) == 0 {
		// OK, because the bundled model trains on the CPU.
		reason, try := fail.SplitRemedy(host.Reason)
		list = append(list, Finding{Check: "GPU", OK: true, Found: "none: " + reason, Try: try})
	}
	return list
}

// checkMPS reports whether MPS is available, as far as that shows before a daemon starts. Missing MPS is OK,
// because nodes can share a GPU in other ways. The second result is false if no whole GPU is present.
func checkMPS(host gpu.Host) (Finding, bool) {
	need := mps.Need{GPUsPerNode: 1}
	for _, d := range host.GPUs {
		if !d.MIG && d.InstanceOf == nil {
			need.GPUs = append(need.GPUs, plan.MPSGPU(d, 1))
		}
	}
	if len(need.GPUs) == 0 {
		return Finding{}, false
	}
	f := Finding{Check: "MPS", OK: true, Found: "available; --share auto uses it if all nodes fit in memory and its test passes"}
	for _, g := range need.GPUs {
		if note := g.Occupied(); note != "" {
			f.Found, f.Try = fail.SplitRemedy(note)
		}
	}
	if err := mps.Check(need); err != nil {
		f.Found, f.Try = fail.SplitRemedy(err.Error())
	}
	return f, true
}
