package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
)

// The dynamic linker binds NVML's symbols once per process, so every test uses the one library built here.
var library string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fakenvml")
	if err != nil {
		panic(err)
	}
	library, err = fakenvml.BuildIn(dir)
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		panic(err)
	}
	code := hermetic.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// migCard is an A100 with two instances, in a container that may not query the whole card's memory.
const migCard = "NVIDIA A100-SXM4-80GB:81920:81000:mig,forbidden,temp=40,inst=1g.10gb/9728/9700,inst=3g.40gb/40192/40000"

func fake(t *testing.T, devices string) {
	t.Helper()
	if library == "" {
		t.Skip("no C compiler")
	}
	t.Setenv(LibraryVariable, library)
	t.Setenv("FAKE_NVML", devices)
	t.Setenv(VisibleVariable, "")
	os.Unsetenv(VisibleVariable)
}

func detectHost(t *testing.T) Host {
	t.Helper()
	host, err := Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if host.Cores < 1 || host.MemoryTotal <= 0 || host.MemoryAvailable <= 0 || host.MemoryAvailable > host.MemoryTotal {
		t.Fatalf("impossible host: %+v", host)
	}
	return host
}

func TestDetectReadsDevices(t *testing.T) {
	fake(t, "NVIDIA A100-SXM4-80GB:81920:81000;Tesla T4:15360:15000")
	host := detectHost(t)
	if host.Device != CUDA || host.Driver != "550.54.15" || host.Reason != "" {
		t.Fatalf("host %+v", host)
	}
	want := []GPU{
		{Index: 0, UUID: "GPU-a0000000-0000-4000-8000-000000000000", Name: "NVIDIA A100-SXM4-80GB", MemoryTotal: 81920 << 20,
			MemoryFree: 81000 << 20, MemoryUsed: 920 << 20},
		{Index: 1, UUID: "GPU-a0000001-0000-4000-8000-000000000001", Name: "Tesla T4", MemoryTotal: 15360 << 20, MemoryFree: 15000 << 20,
			MemoryUsed: 360 << 20},
	}
	if !reflect.DeepEqual(host.GPUs, want) {
		t.Fatalf("GPUs %+v\nwant %+v", host.GPUs, want)
	}
}

func TestDetectSaysWhyThereIsNoGPU(t *testing.T) {
	tests := []struct{ name, devices, fail, visible, want string }{
		{"driver and library differ", "Tesla T4:15360:15000", "nvmlInit=18", "", "different versions"},
		{"driver not loaded", "", "nvmlInit=9", "", "modprobe"},
		{"lost", "Tesla T4:15360:15000", "nvmlDeviceGetHandleByIndex=15", "", "reboot the machine"},
		{"other error", "Tesla T4:15360:15000", "nvmlDeviceGetCount=999", "", "code 999"},
		{"devices taken away", "Tesla T4:15360:15000", "nvmlDeviceGetUUID=999", "", "restart the container"},
		{"permission", "Tesla T4:15360:15000:forbidden", "", "", "no permission"},
		{"none", "", "", "", "sees no GPU"},
		{"hidden", "Tesla T4:15360:15000", "", "-1", "hides every GPU"},
		{"MIG", "NVIDIA A100-SXM4-80GB:81920:81000:mig", "", "", "MIG mode"},
		{"MIG with instances", migCard, "", "", "(2 found). Try: CUDA_VISIBLE_DEVICES=MIG-b0000000-0000-4000-8000-000000000000, or sudo"},
		{"an instance that isn't there", migCard, "", "MIG-c0000000", `names MIG instance "MIG-c0000000", which does not exist`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake(t, tt.devices)
			t.Setenv("FAKE_NVML_FAIL", tt.fail)
			if tt.visible != "" {
				t.Setenv(VisibleVariable, tt.visible)
			}
			host := detectHost(t)
			if host.Device != CPU || !strings.Contains(host.Reason, tt.want) || !strings.Contains(host.Reason, "Try: ") {
				t.Errorf("device %q, reason %q; want %q and a remedy", host.Device, host.Reason, tt.want)
			}
		})
	}
}

func TestDetectUsesTheMIGInstancesThatAreNamed(t *testing.T) {
	fake(t, "Tesla T4:15360:15000;"+migCard)
	t.Setenv(VisibleVariable, "MIG-b0000001-0000-4000-8000-000000000001")
	host := detectHost(t)
	one := 1
	want := []GPU{{Index: 201, UUID: "MIG-b0000001-0000-4000-8000-000000000001", Name: "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
		MemoryTotal: 40192 << 20, MemoryFree: 40000 << 20, MemoryUsed: 192 << 20, InstanceOf: &one}}
	if host.Device != CUDA || host.Reason != "" || !reflect.DeepEqual(host.GPUs, want) {
		t.Errorf("host %+v", host)
	}
}

func TestDetectWithoutLibrary(t *testing.T) {
	t.Setenv(LibraryVariable, filepath.Join(t.TempDir(), "absent.so"))
	if host := detectHost(t); host.Device != CPU || !strings.Contains(host.Reason, "no NVIDIA driver") {
		t.Errorf("host %+v", host)
	}
}

func TestQueryIsBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hang := func() int { <-release; return 0 }

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("asked to stop")
	cancel(cause)
	if _, err := bounded(ctx, time.Hour, hang); !errors.Is(err, cause) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if _, err := bounded(t.Context(), time.Millisecond, hang); !errors.Is(err, errNoAnswer) {
		t.Errorf("with a driver that hangs: %v", err)
	}
}

func TestFilterVisible(t *testing.T) {
	var gpus []handle
	for i := range 4 {
		gpus = append(gpus, handle{GPU: GPU{Index: i, UUID: fmt.Sprintf("GPU-%x%x", i+10, i)}})
	}
	gpus[3].MIG, gpus[3].instances = true, make([]nvml.Device, 3)
	gpus[3].Instances = []Instance{{UUID: "MIG-aa"}, {UUID: "MIG-ab"}, {UUID: "MIG-aab"}}
	tests := []struct {
		list string
		want []int
	}{
		{"", nil},
		{"-1", nil},
		{"0,1", []int{0, 1}},
		{"3, 1", []int{1, 3}},
		{"GPU-b", []int{1}},
		{"GPU-c2,0", []int{0, 2}},
		{"0,7,1", []int{0}},
		{"1,-1,2", []int{1}},
		{"2,2,1", []int{2}},
		{"nonsense", nil},
		{"GPU-,0", nil}, // matches four devices
		{"MIG-aa/1/0", nil},
		{"MIG-ab", []int{401}},
		{"MIG-aa", []int{400}}, // a full match wins, though another UUID begins with it
		{"MIG-a", nil},
		{"MIG-ab,MIG-aab,0", []int{0, 401, 402}},
		{"MIG-ab,MIG-cc,0", []int{401}},
	}
	for _, tt := range tests {
		var got []int
		kept, _ := filterVisible(gpus, tt.list)
		for _, g := range kept {
			got = append(got, g.Index)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q shows %v, want %v", tt.list, got, tt.want)
		}
	}
}

func TestCgroupMemory(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  usage
		found bool
	}{
		{"version 2, limit on a parent", map[string]string{
			"proc/self/cgroup":                                  "0::/user.slice/swarm.service\n",
			"sys/fs/cgroup/user.slice/memory.max":               "8000\n",
			"sys/fs/cgroup/user.slice/memory.current":           "3000\n",
			"sys/fs/cgroup/user.slice/memory.stat":              "anon 1\ninactive_file 500\n",
			"sys/fs/cgroup/user.slice/swarm.service/memory.max": "max\n",
		}, usage{8000, 2500}, true},
		{"version 2, the tighter of two", map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max":       "8000\n",
			"sys/fs/cgroup/a/memory.current":   "7900\n",
			"sys/fs/cgroup/a/b/memory.max":     "6000\n",
			"sys/fs/cgroup/a/b/memory.current": "100\n",
		}, usage{8000, 7900}, true},
		{"version 1 in a container whose path is the host's", map[string]string{
			"proc/self/cgroup":                           "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "4000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 250\n",
		}, usage{4000, 750}, true},
		{"version 1 without a limit", map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, usage{}, false},
		{"no cgroups", nil, usage{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, found := cgroupMemory(root)
			if got != tt.want || found != tt.found {
				t.Errorf("got %+v %t, want %+v %t", got, found, tt.want, tt.found)
			}
		})
	}
}
