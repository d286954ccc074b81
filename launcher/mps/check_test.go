package mps

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/launcher/gpu"
)

var card = GPU{Index: 0, UUID: "GPU-cb1213a3-d6a4-be7f-0000-000000000000", Name: "NVIDIA H100", ComputeMajor: 9, Clients: 8, MemoryFree: 79e9}

func TestCheckSaysWhyInOneLine(t *testing.T) {
	change := func(f func(*GPU)) GPU {
		g := card
		f(&g)
		return g
	}
	for _, tt := range []struct {
		name, system, pipe string
		need               Need
		want               string
	}{
		{"another system", "darwin", "", Need{GPUs: []GPU{card}}, "MPS is not available: it runs on Linux only, not on darwin. Try: --share lease"},
		{"no GPU", "linux", "", Need{}, "MPS is not available: no node is on a GPU. Try: --share lease"},
		{"several GPUs a node", "linux", "", Need{GPUs: []GPU{card}, GPUsPerNode: 2}, "MPS is not available: gpus_per_node is 2, but an MPS client may use only one GPU. Try: --share lease"},
		{"MIG", "linux", "", Need{GPUs: []GPU{change(func(g *GPU) { g.MIG = true })}}, "MPS is not available: GPU 0 (NVIDIA H100) is in MIG mode. Try: --share lease"},
		{"Pascal", "linux", "", Need{GPUs: []GPU{change(func(g *GPU) { g.ComputeMajor = 6 })}}, "MPS is not available: GPU 0 (NVIDIA H100) has compute capability 6; limits for each client came with 7.0 (Volta). Try: --share lease"},
		{"prohibited", "linux", "", Need{GPUs: []GPU{change(func(g *GPU) { g.ComputeMode = gpu.ModeProhibited })}}, "MPS is not available: GPU 0 (NVIDIA H100) is in compute mode PROHIBITED; sudo nvidia-smi -i 0 -c DEFAULT opens it. Try: --share lease"},
		{"49 clients", "linux", "", Need{GPUs: []GPU{change(func(g *GPU) { g.Clients = 49 })}}, "MPS is not available: 49 nodes on GPU 0 (NVIDIA H100) are more than the 48 clients of an MPS server. Try: --nodes 48, or --share lease"},
		{"within another daemon", "linux", "/tmp/nvidia-mps", Need{GPUs: []GPU{card}}, "MPS is not available: this shell is already a client of another MPS daemon (CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps); unset it first. Try: --share lease"},
		{"not installed", "linux", "", Need{GPUs: []GPU{card}, Program: "nvidia-cuda-mps-control-of-nowhere"}, "MPS is not available: nvidia-cuda-mps-control-of-nowhere, a part of NVIDIA's driver (Debian: nvidia-cuda-mps, Ubuntu: nvidia-compute-utils), is not installed. Try: --share lease"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.need.check(tt.system, func(string) string { return tt.pipe })
			if !errors.Is(err, ErrUnavailable) || err.Error() != tt.want {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
	fits := Need{GPUs: []GPU{change(func(g *GPU) { g.Clients, g.ComputeMode = 48, gpu.ModeExclusiveProcess })}, GPUsPerNode: 1, Program: "/bin/sh"}
	if path, err := fits.check("linux", func(string) string { return "" }); err != nil || path != "/bin/sh" {
		t.Errorf("48 clients in exclusive mode: %q, %v", path, err)
	}
}

// Both types of socket count, but not the file that a killed daemon leaves. cmd/swarm tests the warning's text.
func TestOccupiedByALivingDaemon(t *testing.T) {
	usual := DefaultPipe
	t.Cleanup(func() { DefaultPipe = usual })
	exclusive := card
	exclusive.ComputeMode = gpu.ModeExclusiveProcess
	for _, network := range []string{"unix", "unixpacket"} {
		dir, err := os.MkdirTemp("/tmp", "swarm-mps-") // the socket's path must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		DefaultPipe = dir
		occupied := func(where string, want bool) {
			if text := exclusive.Occupied(); (text != "") != want {
				t.Errorf("%s, %s: %q", network, where, text)
			}
		}
		occupied("no daemon", false)
		listener, err := net.ListenUnix(network, &net.UnixAddr{Name: filepath.Join(dir, "control"), Net: network})
		if err != nil {
			t.Fatal(err)
		}
		occupied("a daemon", true)
		if text := card.Occupied(); text != "" {
			t.Errorf("%s in mode DEFAULT: %q", network, text)
		}
		listener.SetUnlinkOnClose(false)
		listener.Close()
		occupied("a stale file", false)
	}
}

func TestClientEnvironment(t *testing.T) {
	for memory, limit := range map[int64]string{
		0: "", 1: "0=1M", 6500 << 20: "0=6500M", 6_500_000_000: "0=6198M",
	} {
		want := []string{"CUDA_MPS_PIPE_DIRECTORY=/p", "CUDA_MPS_LOG_DIRECTORY=/l"}
		if limit != "" {
			want = append(want, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="+limit)
		}
		if got := (&daemon{pipe: "/p", logs: "/l"}).clientEnv(memory); !slices.Equal(got, want) {
			t.Errorf("%d bytes: %v, want %v", memory, got, want)
		}
	}
}

func TestAnswersInWordsAreNoProcesses(t *testing.T) {
	if got := pids("6472\n  6473 \nServer not found\n-1\n0\n"); !slices.Equal(got, []int{6472, 6473}) {
		t.Errorf("%v", got)
	}
}

// With a path above 107 bytes the daemon would start and end without an error message.
func TestPipeDirectoriesFitASocket(t *testing.T) {
	short, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	long := t.TempDir() + strings.Repeat("/x", 50)
	dir, err := makePipe(long, short)
	if err != nil {
		t.Fatal(err)
	}
	if len(dir)+1+len(longestName) > socketLimit {
		t.Errorf("%s is too long", dir)
	}
	if dir, err := makePipe(long); err == nil || !strings.Contains(err.Error(), "too long for a socket. Try: TMPDIR=/tmp") {
		t.Errorf("%s, %v", dir, err)
	}
}
