package gpu

import "fmt"

// xidMeaning is the meaning of an XID and its remedy. Source: NVIDIA, "Xid Errors"
// (docs.nvidia.com/deploy/xid-errors).
type xidMeaning struct {
	what  string
	try   string
	fatal bool // all work on the GPU stops until a reset
}

const (
	restartNode = "the node restarts by itself; if it comes back, swarm doctor, then another torch or driver"
	resetGPU    = "stop what runs on it and sudo nvidia-smi --gpu-reset -i GPU, or reboot"
	rebootHost  = "reboot the machine; if it comes back, have the card, its power and its slot looked at"
)

var xidMeanings = map[int]xidMeaning{
	8:   {"GPU stopped processing: a computation ran into the driver's time limit", restartNode, false},
	13:  {"a program's computation failed on the GPU (graphics engine exception)", restartNode, false},
	31:  {"a program reached for memory it doesn't have (GPU memory page fault)", restartNode, false},
	32:  {"the driver sent the GPU a corrupted command (push buffer)", restartNode, false},
	38:  {"driver firmware error", rebootHost, false},
	43:  {"a program's work on the GPU was ended after its own fault; the GPU is fine", restartNode, false},
	45:  {"work on the GPU was cleaned up after another error or because its process was killed", "nothing, unless it comes alone and often", false},
	48:  {"uncorrectable memory error (double-bit ECC)", resetGPU, false}, // 94 or 95 reports the extent
	61:  {"a controller inside the GPU warned", "nothing; if it comes back, reboot the machine", false},
	62:  {"a controller inside the GPU halted", resetGPU, true},
	63:  {"defective memory was noted and will be replaced at the next reset", "let the run end, then sudo nvidia-smi --gpu-reset -i GPU", false},
	64:  {"defective memory could not be noted for replacement", resetGPU + "; if it comes back, have the card replaced", false},
	69:  {"a program's computation failed on the GPU (graphics engine class error)", restartNode, false},
	74:  {"error on the NVLink between GPUs", "use the GPUs apart (gpus_per_node: 1); if it comes back, have the bridge looked at", false},
	79:  {"the GPU has fallen off the bus", rebootHost, true},
	92:  {"many corrected memory errors", "let the run end, then have the card looked at", false},
	94:  {"a memory error that reached one program alone (contained ECC error)", restartNode + "; reset the GPU when the run has ended", false},
	95:  {"a memory error that may have reached every program (uncontained ECC error)", resetGPU, true},
	109: {"a program held the GPU for too long at a switch", restartNode, false},
	119: {"the GPU's system processor does not answer (GSP RPC timeout)", rebootHost + ", or the driver option NVreg_EnableGpuFirmware=0", true},
	120: {"the GPU's system processor failed (GSP error)", rebootHost + ", or the driver option NVreg_EnableGpuFirmware=0", true},
	140: {"memory error that the GPU could not recover from", resetGPU, true},
	154: {"the driver wants the GPU to be reset or drained", "nvidia-smi -q, under GPU Recovery Action, says what", false},
}

// Fatal reports whether all work on the GPU stops until a reset.
func (x XID) Fatal() bool { return xidMeanings[x.Code].fatal }

// String describes the error and its GPU, with a remedy at the end.
func (x XID) String() string { return x.note().String() }

func (x XID) note() Note {
	meaning, known := xidMeanings[x.Code]
	if !known {
		meaning = xidMeaning{"an error of the GPU", "look it up at docs.nvidia.com/deploy/xid-errors", false}
	}
	n := Note{Code: "xid", Text: fmt.Sprintf("XID %d: %s", x.Code, meaning.what), Try: meaning.try}
	if x.Index >= 0 {
		n.GPU = &x.Index
	}
	return n
}
