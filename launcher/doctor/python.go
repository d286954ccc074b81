package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/node/policy"
)

// checkPython reports on the interpreters, and on the engine of the chosen one.
func checkPython(ctx context.Context, o Options, host gpu.Host) []Finding {
	python, probes, err := o.Python.Search(ctx)
	list := withoutTorch(probes, err == nil)
	if err != nil {
		if len(probes) == 0 {
			list = append(list, Finding{Check: "python", Found: "no python3 found"})
		}
		list[len(list)-1].Try = o.Remedy(err)
		return list
	}
	f := Finding{Check: "python", OK: true, Found: fmt.Sprintf("%s (%s), torch %s", python.Path, python.Source, python.Torch)}
	if host.Device == gpu.CUDA && !python.CUDA {
		f.OK, f.Try = false, "a PyTorch built for CUDA: pip install torch, then --python PATH"
		f.Found += ", built without CUDA"
	}
	return append(list, f, checkEngine(ctx, o, host))
}

// withoutTorch returns findings for interpreters that cannot be used. They count as skipped if another one can be
// used.
func withoutTorch(probes []policy.Probe, another bool) (list []Finding) {
	for _, p := range probes {
		if p.Torch == "" {
			list = append(list, Finding{Check: "python", OK: another, Unfit: true, Found: fmt.Sprintf("%s (%s): %s", p.Path, p.Source, p.Err)})
		}
	}
	return list
}

// checkEngine starts the real engine: an interpreter that imports torch may still fail to run it.
func checkEngine(ctx context.Context, o Options, host gpu.Host) Finding {
	f := Finding{Check: "engine"}
	began := time.Now()
	engine, err := o.StartEngine(ctx, host.Cores)
	if err != nil {
		f.Found, f.Try = err.Error(), "another --python"
		return f
	}
	defer engine.Close()
	h := engine.Hello
	f.OK = true
	f.Found = fmt.Sprintf("answers after %.1f s, torch %s, BLAS %s, CUDA %t, %s resident", time.Since(began).Seconds(), h.Torch, h.BLAS, h.CUDA, units.Bytes(h.RSSBytes))
	if _, err := o.Python.Host(); err != nil {
		f.Found += "; no engine host: " + err.Error()
	}
	if host.Device == gpu.CUDA && !h.CUDA {
		f.OK, f.Try = false, "check that the driver fits this PyTorch: nvidia-smi, python3 -c 'import torch; torch.zeros(1).cuda()'"
	}
	return f
}
