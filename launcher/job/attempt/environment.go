package attempt

import (
	"slices"
	"strconv"
	"strings"
)

// Names of environment variables.
const (
	visibleVariable    = "CUDA_VISIBLE_DEVICES"
	orderVariable      = "CUDA_DEVICE_ORDER"
	allocatorVariable  = "PYTORCH_CUDA_ALLOC_CONF" // every torch reads it; since 2.9 it is the older of two names
	allocatorVariable2 = "PYTORCH_ALLOC_CONF"
	unbufferedVariable = "PYTHONUNBUFFERED"
)

// Settings of torch's allocator against fragmentation. MaxSplit is guide 0's setting and the default for commands.
// Torch 1.13 and current versions accept it. Expandable ends a program with torch before 2.1 ("Unrecognized
// CachingAllocator option"), and vLLM's sleep mode, which verl uses, rejected it for a year. Expandable is only for
// users with a torch that has proposed it.
const (
	MaxSplit   = "max_split_size_mb:512"
	Expandable = "expandable_segments:True"
)

// Device is the device that a command computes on.
type Device struct {
	CPU   bool
	Index int    // NVML's index, which equals CUDA's in PCI order; -1: unknown
	UUID  string // GPU-… or MIG-…
}

// Visible returns the CUDA_VISIBLE_DEVICES value that shows only the device. It is the index if known, because vLLM
// and other programs accept only numbers. A MIG instance has only a UUID.
func (d Device) Visible() string {
	switch {
	case d.CPU:
		return ""
	case d.Index >= 0 && !strings.HasPrefix(d.UUID, "MIG-"):
		return strconv.Itoa(d.Index)
	}
	return d.UUID
}

// Environment returns base for a command on a device, with extra (NAME=value) set last. On a GPU it sets MaxSplit for
// torch's allocator unless base configures the allocator.
func Environment(base []string, device Device, extra ...string) []string {
	env := set(slices.Clone(base), visibleVariable, device.Visible())
	if !device.CPU {
		env = set(env, orderVariable, "PCI_BUS_ID")
		if !has(env, allocatorVariable) && !has(env, allocatorVariable2) {
			env = set(env, allocatorVariable, MaxSplit)
		}
	}
	for _, entry := range extra {
		name, value, _ := strings.Cut(entry, "=")
		env = set(env, name, value)
	}
	return env
}

// Unbuffered returns env with PYTHONUNBUFFERED=1, unless env sets that variable. Python buffers output to a pipe, and
// users want to see progress at once.
func Unbuffered(env []string) []string {
	if has(env, unbufferedVariable) {
		return env
	}
	return set(env, unbufferedVariable, "1")
}

func has(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}

// set returns a copy of env in which a name has exactly one value.
func set(env []string, name, value string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	return append(kept, name+"="+value)
}
