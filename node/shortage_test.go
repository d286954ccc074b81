package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

func TestCauseOf(t *testing.T) {
	const gb = 1_000_000_000
	cases := []struct {
		name   string
		short  policy.Shortage
		others int64
		want   string
	}{
		{"the host", policy.Shortage{Where: "host", RequestedBytes: gb, CapBytes: gb}, 0, event.MemoryHost},
		{"its cap, with room on the device",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 6 * gb, CapBytes: 6.5e9, FreeBytes: 20 * gb, TotalBytes: 80 * gb}, 54 * gb, event.MemoryOwnCap},
		{"its cap, whatever the neighbours took, for the device has the bytes",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 6 * gb, CapBytes: 6.5e9, FreeBytes: 2 * gb, TotalBytes: 80 * gb}, 10 * gb, event.MemoryOwnCap},
		{"its cap, request unknown", policy.Shortage{Where: "device", UsedBytes: 6 * gb, CapBytes: 6.5e9, FreeBytes: 20 * gb, TotalBytes: 80 * gb}, 54 * gb, event.MemoryOwnCap},
		{"a full device, as planned",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 9 * gb, CapBytes: 10 * gb, FreeBytes: 0.1e9, TotalBytes: 80 * gb}, 70 * gb, event.MemoryGPU},
		{"a full device, cap and all",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 9.5e9, CapBytes: 10 * gb, FreeBytes: 0.5e9, TotalBytes: 80 * gb}, 70 * gb, event.MemoryGPU},
		{"a full device, within the slack of the plan",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 3 * gb, CapBytes: 10 * gb, FreeBytes: 0.5e9, TotalBytes: 80 * gb}, 70 * gb, event.MemoryGPU},
		{"a neighbour",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 2 * gb, CapBytes: 10 * gb, FreeBytes: 0.5e9, TotalBytes: 80 * gb}, 70 * gb, event.MemoryNeighbour},
		{"a neighbour where there should be none",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 8 * gb, FreeBytes: 0.5e9, TotalBytes: 16 * gb}, 0, event.MemoryNeighbour},
		{"alone on the device, no cap",
			policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 15 * gb, FreeBytes: 0.4e9, TotalBytes: 16 * gb}, 0, event.MemoryGPU},
		{"no figures", policy.Shortage{Where: "device"}, 10 * gb, event.MemoryGPU},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, causeOf(c.short, c.others, false)) })
	}
}

// Under an MPS limit the driver reports the rest of the limit as free, which is never more than the cap leaves.
func TestCauseOfUnderMPS(t *testing.T) {
	const gb = 1_000_000_000
	capped := policy.Shortage{Where: "device", RequestedBytes: gb, UsedBytes: 6 * gb, CapBytes: 6.5e9, FreeBytes: 0.5e9, TotalBytes: 80 * gb}
	require.Equal(t, event.MemoryGPU, causeOf(capped, 73*gb, false), "the same figures of a card that is full")
	require.Equal(t, event.MemoryOwnCap, causeOf(capped, 73*gb, true))
	full := capped
	full.UsedBytes, full.FreeBytes = 3*gb, 0.2e9
	require.Equal(t, event.MemoryGPU, causeOf(full, 76*gb, true), "within its cap")
	require.Equal(t, event.MemoryNeighbour, causeOf(full, 60*gb, true), "others took what the plan left to nobody")
	require.Equal(t, event.MemoryHost, causeOf(policy.Shortage{Where: "host", RequestedBytes: gb, CapBytes: gb}, 0, true))
}

func TestOutOfMemory(t *testing.T) {
	given := &policy.Shortage{Where: "host", RequestedBytes: 5}
	full := &policy.Error{Kind: policy.KindOutOfMemory, Message: "full", Shortage: given}
	require.Equal(t, given, outOfMemory(fmt.Errorf("update: %w", full), true))
	require.Equal(t, "device", outOfMemory(&policy.Error{Kind: policy.KindOutOfMemory}, true).Where)
	require.Equal(t, "host", outOfMemory(&policy.Error{Kind: policy.KindOutOfMemory}, false).Where)
	for _, err := range []error{nil, errors.New("out of memory"), policy.ErrEngineGone, &policy.Error{Kind: policy.KindNotFinite}} {
		require.Nil(t, outOfMemory(err, true), "%v", err)
	}
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "17.7 GB asked for, 6.1 GB in use, 6.5 GB allowed, 200 MB of 80.0 GB free", describe(policy.Shortage{
		RequestedBytes: 17.66e9, UsedBytes: 6.1e9, CapBytes: 6.5e9, FreeBytes: 200e6, TotalBytes: 80e9}))
	require.Equal(t, "516 kB asked for", describe(policy.Shortage{RequestedBytes: 516096}))
	require.Equal(t, "the engine reports no figures", describe(policy.Shortage{Where: "device"}))
}
