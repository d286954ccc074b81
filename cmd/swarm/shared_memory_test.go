package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

// nearShare is the allowed relative error of the estimated memory of several engines and their host.
const nearShare = 0.15

// The plan's memory for the engines of one host, with shared memory counted once, equals the sum of their
// proportional shares and the host's: between phases, and at the peaks while engines compute.
//
// Not in parallel: a thread of TestPartitions runs in its own network namespace. If that thread is the first one, the
// host refuses to fork.
func TestSharedEstimateOnCPU(t *testing.T) {
	var lab policytest.Lab
	t.Cleanup(lab.Close)
	options := lab.Options(t)
	model := presetModel(t, "nano")
	work := sample{phase: fit.PhaseUpdate, rows: 16, prompt: 192, next: 48, each: 8}
	pids, grown := []int{lab.HostPID()}, int64(0)
	for n := 1; n <= 4; n++ {
		e := startMeasuredWith(t, model, false, options)
		require.Empty(t, e.engine.Direct, "a fork of the host")
		pids = append(pids, e.engine.PID())
		e.run(t, work)
		resident, peak := e.measure(t, work) // trims
		grown += peak - resident
		if _, err := e.engine.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n == 3 {
			continue
		}
		held := holdTogether(t, pids)
		f := fit.Sum(fit.Estimate(model, fit.DeviceCPU, work.settings(false), configs.AtOnce{Generate: 1, Update: work.rows}))
		// This test has no Go process beside each engine.
		resting := f.Shared + int64(n)*(f.Resident-fit.NodeProcess)
		for what, figures := range map[string][2]int64{
			"between phases": {held, resting}, "while all compute": {held + grown, resting + int64(n)*f.Update},
		} {
			off := float64(figures[1])/float64(figures[0]) - 1
			t.Logf("%d engines, %s: measured %.0f MB, estimated %.0f MB (%+.0f %%)", n, what, mb(figures[0]), mb(figures[1]), 100*off)
			if math.Abs(off) > nearShare {
				t.Errorf("%d engines, %s: measured %.0f MB, estimated %.0f MB", n, what, mb(figures[0]), mb(figures[1]))
			}
		}
	}
}

// holdTogether returns the sum of processes' proportional shares, in bytes. Processes of other tests may map the same
// library pages, which would distort the shares. So for pages of files it counts the maximum that any of these
// processes has of a mapping. Forks have equal addresses.
func holdTogether(t *testing.T, pids []int) int64 {
	t.Helper()
	var sum int64
	files := map[string]int64{}
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
		if err != nil {
			t.Skipf("this kernel does not say what processes share: %v", err)
		}
		mapping, sizes := "", map[string]int64{}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if !strings.HasSuffix(fields[0], ":") {
				mapping = fields[0]
				continue
			}
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				sizes[fields[0]] = n << 10
			}
			if fields[0] == "VmFlags:" { // last line of the mapping
				ofFiles := sizes["Rss:"] - sizes["Anonymous:"]
				files[mapping] = max(files[mapping], ofFiles)
			}
		}
		sum += anonymousShare(t, pid)
	}
	for _, n := range files {
		sum += n
	}
	return sum
}

// anonymousShare returns a process's proportional share of anonymous pages, in bytes.
func anonymousShare(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); fields[0] == "Pss_Anon:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			require.NoError(t, err)
			return n << 10
		}
	}
	t.Skip("this kernel does not tell the share of anonymous memory (Linux 5.4)")
	return 0
}
