package attempt

import (
	"slices"
	"strconv"
	"strings"
)

// Names in a command's environment.
const (
	visibleVariable    = "CUDA_VISIBLE_DEVICES"
	orderVariable      = "CUDA_DEVICE_ORDER"
	allocatorVariable  = "PYTORCH_CUDA_ALLOC_CONF" // every torch knows it; from 2.9 on it is the older of two names
	allocatorVariable2 = "PYTORCH_ALLOC_CONF"
	unbufferedVariable = "PYTHONUNBUFFERED"
)

// Settings of torch's allocator against fragmentation. MaxSplit is guide 0's and what a command gets: torch 1.13 knows
// it as today's does. Before torch 2.1 Expandable ends the program ("Unrecognized CachingAllocator option"), and vLLM's
// sleep mode, which verl uses, refused it for a year; so it is only for somebody whose torch has proposed it.
const (
	MaxSplit   = "max_split_size_mb:512"
	Expandable = "expandable_segments:True"
)

// Device is where a command is to compute.
type Device struct {
	CPU   bool
	Index int    // NVML's, which is that of CUDA in PCI order; -1: unknown
	UUID  string // GPU-… or MIG-…
}

// Visible is the CUDA_VISIBLE_DEVICES that shows the device alone. That is its index where it has one: vLLM and others
// take a number alone. A MIG instance has only its UUID.
func (d Device) Visible() string {
	switch {
	case d.CPU:
		return ""
	case d.Index >= 0 && !strings.HasPrefix(d.UUID, "MIG-"):
		return strconv.Itoa(d.Index)
	}
	return d.UUID
}

// Environment is base for a command that is to compute on a device, with extra (NAME=value) set last. On a GPU torch's
// allocator gets MaxSplit unless base sets it up.
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

// Unbuffered is env with PYTHONUNBUFFERED=1, unless it says something about that already: a person who watches a
// terminal wants to see progress at once, which Python keeps back from a pipe.
func Unbuffered(env []string) []string {
	if has(env, unbufferedVariable) {
		return env
	}
	return set(env, unbufferedVariable, "1")
}

func has(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}

// set is a copy of env in which a name has one value.
func set(env []string, name, value string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	return append(kept, name+"="+value)
}
