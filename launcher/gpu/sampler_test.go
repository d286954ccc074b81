package gpu

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
	"github.com/sapo-swarm/swarm/metrics/event"
)

const patience = 2 * time.Minute

func sampler(t *testing.T, devices string) *Sampler {
	t.Helper()
	fake(t, devices)
	s, err := OpenSampler(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func sample(t *testing.T, s *Sampler) Sample {
	t.Helper()
	got, err := s.Sample(t.Context())
	require.NoError(t, err)
	return got
}

func TestSampleReadsEverything(t *testing.T) {
	s := sampler(t, "NVIDIA H100 80GB HBM3:81559:30000:util=93,power=612,limit=700,temp=71,slow=90,clocks=0x24,proc=4711/20000,proc=12/-,remap=pending")
	require.Equal(t, "550.54.15", s.session.driver)
	before := event.Now()
	got := sample(t, s)
	require.InDelta(t, before, got.Time, 20)
	require.Equal(t, []Device{{
		GPU: GPU{Index: 0, UUID: "GPU-a0000000-0000-4000-8000-000000000000", Name: "NVIDIA H100 80GB HBM3", MemoryTotal: 81559 << 20,
			MemoryFree: 30000 << 20, MemoryUsed: 51559 << 20},
		Utilization: 0.93, PowerWatts: 612, PowerLimitWatts: 700, TemperatureCelsius: 71, TemperatureSlowdown: 90,
		Slowdowns: []string{SlowdownPowerCap, SlowdownHeat}, Processes: []Process{{4711, 20000 << 20}, {12, -1}}, MemoryRepairPending: true,
	}}, got.Devices)
	require.Equal(t, &event.Device{
		Index: 0, UUID: "GPU-a0000000-0000-4000-8000-000000000000", Name: "NVIDIA H100 80GB HBM3", MemoryTotalBytes: 81559 << 20,
		MemoryUsedBytes: 51559 << 20, UnattributedBytes: 7, Utilization: 0.93, PowerWatts: 612, PowerLimitWatts: 700, TemperatureCelsius: 71,
	}, got.Devices[0].Event(7))
}

// Under MPS the driver lists the server among the compute processes, and the clients separately. Each process counts
// once, with its reported memory.
func TestClientsOfMPSAreProcessesToo(t *testing.T) {
	for devices, want := range map[string][]Process{
		"proc=99/30,mps=4711/6000,mps=4712/-":             {{99, 30 << 20}, {4711, 6000 << 20}, {4712, -1}},
		"mps=4711/6000":                                   {{4711, 6000 << 20}},
		"proc=4711/-,mps=4711/6000,proc=5/7,mps=5/9000":   {{4711, 6000 << 20}, {5, 7 << 20}},
		"proc=4711/1,mps=12/2,mps=13/2,mps=14/2,mps=15/2": {{4711, 1 << 20}, {12, 2 << 20}, {13, 2 << 20}, {14, 2 << 20}, {15, 2 << 20}},
	} {
		s := sampler(t, "NVIDIA H100 80GB HBM3:81559:30000:"+devices)
		require.Equal(t, want, sample(t, s).Devices[0].Processes, devices)
	}
	t.Setenv("FAKE_NVML_FAIL", "nvmlDeviceGetMPSComputeRunningProcesses=3") // a card older than Volta
	s := sampler(t, "Tesla P100:16384:16000:proc=4711/1")
	require.Equal(t, []Process{{4711, 1 << 20}}, sample(t, s).Devices[0].Processes)
}

func TestWhatADriverDoesNotTellIsAbsent(t *testing.T) {
	s := sampler(t, "Tesla T4:15360:15000;Tesla T4:15360:15000:proc=none,clocks=0,retired=pending")
	got := sample(t, s).Devices
	for _, d := range got {
		require.Equal(t, []float64{-1, -1, -1, -1, -1},
			[]float64{d.Utilization, d.PowerWatts, d.PowerLimitWatts, d.TemperatureCelsius, d.TemperatureSlowdown})
		require.Empty(t, d.Problem)
		require.Equal(t, int64(360<<20), d.MemoryUsed)
	}
	require.Nil(t, got[0].Processes)
	require.Nil(t, got[0].Slowdowns)
	require.False(t, got[0].MemoryRepairPending)
	require.Equal(t, []Process{}, got[1].Processes)
	require.Equal(t, []string{}, got[1].Slowdowns)
	require.True(t, got[1].MemoryRepairPending, "pages to be retired, on a card from before Ampere")
}

func TestSampleFollowsADeviceThatChanges(t *testing.T) {
	write := fakenvml.File(t)
	write("Tesla T4:15360:15000:util=1\n")
	s := sampler(t, "")
	require.Equal(t, 0.01, sample(t, s).Devices[0].Utilization)
	write("Tesla T4:15360:4000:util=99\n")
	d := sample(t, s).Devices[0]
	require.Equal(t, 0.99, d.Utilization)
	require.Equal(t, int64(11360<<20), d.MemoryUsed)
}

func TestALostGPUIsToldAndTheOthersGoOn(t *testing.T) {
	write := fakenvml.File(t)
	write("Tesla T4:15360:15000:temp=50\nTesla T4:15360:15000:temp=51\n")
	s := sampler(t, "")
	first := sample(t, s)
	require.Empty(t, Faults(Sample{}, first))
	write("Tesla T4:15360:15000:temp=50,lost\nTesla T4:15360:15000:temp=51\n")
	second := sample(t, s)
	lost, well := second.Devices[0], second.Devices[1]
	require.True(t, lost.Lost)
	require.Equal(t, "read GPU 0: the GPU fell off its bus or needs a reset (GPU is lost). Try: reboot the machine", lost.Problem)
	require.Equal(t, []int64{15360 << 20, -1, -1}, []int64{lost.MemoryTotal, lost.MemoryFree, lost.MemoryUsed})
	require.Equal(t, 51.0, well.TemperatureCelsius)
	require.Equal(t, []Fault{{0, lost.Problem}}, Faults(first, second))
	require.Empty(t, Faults(second, sample(t, s)), "told once")
}

func TestAGPULostAfterSomeQueries(t *testing.T) {
	s := sampler(t, "Tesla T4:15360:15000:lost=20,temp=50")
	for range 20 {
		if sample(t, s).Devices[0].Lost {
			return
		}
	}
	t.Fatal("never lost")
}

func TestXIDsAreToldOnceWithTheirGPU(t *testing.T) {
	write := fakenvml.File(t)
	write("Tesla T4:15360:15000\nTesla T4:15360:15000:xid=31\n")
	s := sampler(t, "")
	xids := func(want int) (seen []XID) {
		t.Helper()
		for deadline := time.Now().Add(patience); len(seen) < want && time.Now().Before(deadline); {
			seen = append(seen, sample(t, s).XIDs...)
		}
		return seen
	}
	first := xids(1)
	require.Len(t, first, 1)
	require.Equal(t, XID{first[0].Time, 1, "GPU-a0000001-0000-4000-8000-000000000001", 31}, first[0])
	require.False(t, first[0].Fatal())
	write("Tesla T4:15360:15000:xid=79\nTesla T4:15360:15000:xid=31\n")
	second := xids(1)
	require.Len(t, second, 1)
	require.Equal(t, 79, second[0].Code)
	faults := Faults(Sample{}, Sample{Devices: sample(t, s).Devices, XIDs: second})
	require.Len(t, faults, 1)
	require.Equal(t, 0, faults[0].GPU)
	require.Contains(t, faults[0].Message, "GPU 0: XID 79: the GPU has fallen off the bus. Try: reboot")
}

func TestXIDsOfADriverThatHasNoEvents(t *testing.T) {
	for _, fail := range []string{"nvmlEventSetCreate=3", "nvmlDeviceRegisterEvents=3", "nvmlDeviceGetSupportedEventTypes=3", "nvmlEventSetWait=999"} {
		t.Run(fail, func(t *testing.T) {
			t.Setenv("FAKE_NVML_FAIL", fail)
			s := sampler(t, "Tesla T4:15360:15000:xid=79")
			require.Empty(t, sample(t, s).XIDs)
		})
	}
}

func TestAMIGInstanceIsSampledAsADevice(t *testing.T) {
	t.Setenv(VisibleVariable, "MIG-b0000000")
	card := "NVIDIA A100-SXM4-80GB:81920:81000:mig,forbidden,temp=40,power=99,util=50,xid=95,inst=1g.10gb/9728/700"
	s := func() *Sampler {
		t.Helper()
		fake(t, card)
		t.Setenv(VisibleVariable, "MIG-b0000000")
		s, err := OpenSampler(t.Context())
		require.NoError(t, err)
		t.Cleanup(s.Close)
		return s
	}()
	var got Sample
	var seen []XID
	for deadline := time.Now().Add(patience); len(seen) == 0 && time.Now().Before(deadline); {
		got = sample(t, s)
		seen = append(seen, got.XIDs...)
	}
	d := got.Devices[0]
	require.Equal(t, []int64{9728 << 20, 700 << 20}, []int64{d.MemoryTotal, d.MemoryFree})
	require.Equal(t, []float64{-1, 40, 99}, []float64{d.Utilization, d.TemperatureCelsius, d.PowerWatts}, "heat and power are the board's")
	require.Len(t, seen, 1)
	require.Equal(t, 0, seen[0].Index)
	require.Equal(t, []Fault{{100, seen[0].String()}}, Faults(Sample{}, got))
}

func TestASplitGPUIsSampledWithWhatItTells(t *testing.T) {
	s := sampler(t, migCard)
	d := sample(t, s).Devices[0]
	require.True(t, d.MIG)
	require.Empty(t, d.Problem)
	require.Len(t, d.Instances, 2)
	require.Equal(t, int64((9728+40192)<<20), d.MemoryTotal, "of the instances: a container may not ask for the card's")
	require.Equal(t, 40.0, d.TemperatureCelsius)
}

func TestOpenSamplerSaysWhyItCannot(t *testing.T) {
	for fail, want := range map[string]string{
		"nvmlInit=18":                    "different versions, as after a driver update. Try: reboot",
		"nvmlInit=9":                     "not loaded. Try: sudo modprobe nvidia",
		"nvmlDeviceGetHandleByIndex=15":  "fell off its bus",
		"nvmlDeviceGetCount=2":           "count GPUs: NVML says",
		"nvmlSystemGetDriverVersion=999": "",
	} {
		fake(t, "Tesla T4:15360:15000")
		t.Setenv("FAKE_NVML_FAIL", fail)
		s, err := OpenSampler(t.Context())
		if want == "" {
			require.NoError(t, err)
			require.Empty(t, s.session.driver)
			s.Close()
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, ". Try: ")
	}
	t.Setenv(LibraryVariable, filepath.Join(t.TempDir(), "absent.so"))
	_, err := OpenSampler(t.Context())
	require.ErrorContains(t, err, "no NVIDIA driver on this machine")
}

func TestADriverThatHangsHoldsNobodyUp(t *testing.T) {
	fake(t, "Tesla T4:15360:15000")
	t.Setenv("FAKE_NVML_DELAY", "nvmlInit=300")
	_, err := openSampler(t.Context(), time.Millisecond)
	require.ErrorContains(t, err, "did not answer for 1ms. Try: nvidia-smi")
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("gpu.openSampler")) && !bytes.Contains(stacks, []byte("xidWatch).serve"))
	}, patience, 10*time.Millisecond, "a session that opens late is closed")
	t.Setenv("FAKE_NVML_DELAY", "")

	s, err := openSampler(t.Context(), patience)
	require.NoError(t, err)
	t.Setenv("FAKE_NVML_DELAY", "nvmlDeviceGetMemoryInfo=300")
	s.limit = time.Millisecond
	for range 2 {
		_, err = s.Sample(t.Context())
		require.ErrorContains(t, err, "did not answer for 1ms")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("asked to stop")
	cancel(cause)
	_, err = s.Sample(ctx)
	require.ErrorIs(t, err, cause)
	s.limit = patience
	late, err := s.Sample(t.Context())
	require.NoError(t, err, "it answers after all")
	require.Len(t, late.Devices, 1)
	s.Close()
}

// After a fatal XID NVML may block. The error still reaches the caller, with its GPU, though the GPU answers no query.
func TestAnXIDIsToldWhileTheDriverHangs(t *testing.T) {
	write := fakenvml.File(t)
	write("Tesla T4:15360:15000\nTesla T4:15360:15000\n")
	s := sampler(t, "")
	before := sample(t, s)
	write("Tesla T4:15360:15000\nTesla T4:15360:15000:xid=79,hang\n")
	s.limit = time.Millisecond
	var now Sample
	var err error
	for deadline := time.Now().Add(patience); len(now.XIDs) == 0 && time.Now().Before(deadline); {
		now, err = s.Sample(t.Context())
	}
	require.ErrorContains(t, err, "did not answer for 1ms")
	require.Equal(t, []Fault{{1, now.XIDs[0].String()}}, Faults(before, now))
	require.Contains(t, now.Devices[0].Problem, "did not answer")
	require.Equal(t, []int64{15360 << 20, -1}, []int64{now.Devices[0].MemoryTotal, now.Devices[0].MemoryUsed})
	write("Tesla T4:15360:15000\nTesla T4:15360:15000\n")
	s.limit = patience
	require.Empty(t, sample(t, s).XIDs, "told once")
}

// NVML does not promise that an event has the handle of the registration.
func TestAnXIDWithAnUnknownHandleIsFoundByItsUUID(t *testing.T) {
	uuid := func(uuid string) nvml.Device {
		return &mock.Device{
			GetNameFunc: func() (string, nvml.Return) { return "", nvml.SUCCESS },
			GetUUIDFunc: func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
		}
	}
	w := &xidWatch{session: &session{}, watched: map[nvml.Device]XID{uuid("GPU-a"): {Index: 0, UUID: "GPU-a"}, uuid("GPU-b"): {Index: 1, UUID: "GPU-b"}}}
	for _, id := range []string{"GPU-b", "GPU-c"} {
		w.add(nvml.EventData{Device: uuid(id), EventType: nvml.EventTypeXidCriticalError, EventData: 79})
	}
	seen := w.take()
	require.Equal(t, []XID{{seen[0].Time, 1, "GPU-b", 79}, {seen[1].Time, -1, "GPU-c", 79}}, seen)
}

func TestAGPUWithTheHostsMemory(t *testing.T) {
	const gb10 = "NVIDIA GB10:0:0:unified,temp=40,proc=4711/-"
	s := sampler(t, gb10)
	d := sample(t, s).Devices[0]
	total, _, err := Memory(t.Context())
	require.NoError(t, err)
	require.True(t, d.Unified)
	require.Empty(t, d.Problem)
	require.Equal(t, []int64{total, total}, []int64{d.MemoryTotal, d.MemoryFree + d.MemoryUsed})
	require.Positive(t, d.MemoryFree)
	require.Positive(t, d.MemoryUsed)
	require.Equal(t, 40.0, d.TemperatureCelsius)
	require.Equal(t, []Process{{4711, -1}}, d.Processes)

	host := detectHost(t)
	require.Equal(t, CUDA, host.Device, host.Reason)
	require.True(t, host.GPUs[0].Unified)
	require.Equal(t, host.MemoryTotal, host.GPUs[0].MemoryTotal)

	fake(t, gb10+";Tesla T4:15360:15000")
	require.False(t, detectHost(t).GPUs[1].Unified)
	t.Setenv("FAKE_NVML_FAIL", "nvmlDeviceGetMemoryInfo=3")
	fake(t, "NVIDIA H100 80GB HBM3:81559:81000:mig")
	require.Contains(t, detectHost(t).Reason, "Not Supported", "of a GPU in MIG mode the host's memory says nothing")
}

// Detect and a Sampler share the binding's global tables. The race detector checks the locking.
func TestDetectBesideASampler(t *testing.T) {
	s := sampler(t, "Tesla T4:15360:15000:temp=50,xid=13")
	detected := make(chan error, 1)
	go func() {
		var err error
		for range 5 {
			if host, e := Detect(context.Background()); e != nil || len(host.GPUs) != 1 {
				err = errors.Join(e, errors.New(host.Reason))
			}
		}
		detected <- err
	}()
	for done := false; !done; {
		select {
		case err := <-detected:
			require.NoError(t, err)
			done = true
		default:
			require.Len(t, sample(t, s).Devices, 1)
		}
	}
}

func TestEveryXIDSaysWhatToDo(t *testing.T) {
	codes := []int{0, 999}
	for code := range xidMeanings {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		text := XID{Index: 0, Code: code}.String()
		what, try, found := strings.Cut(text, ". Try: ")
		require.True(t, found && what != "" && try != "" && !strings.Contains(text, "\n"), text)
	}
	for _, code := range []int{13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119} {
		require.Contains(t, xidMeanings, code)
	}
	require.True(t, XID{Code: 79}.Fatal())
	require.False(t, XID{Code: 45}.Fatal())
	require.False(t, XID{Code: 4711}.Fatal())
}
