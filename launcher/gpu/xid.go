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
	restartNode = "the node restarts automatically; if the error returns, run swarm doctor, then try another torch or driver"
	resetGPU    = "stop its processes and sudo nvidia-smi --gpu-reset -i GPU, or reboot"
	rebootHost  = "reboot the machine; if the error returns, have the card, its power and its slot checked"
)

var xidMeanings = map[int]xidMeaning{
	8:   {"GPU stopped processing: a computation exceeded the driver's time limit", restartNode, false},
	13:  {"a program's computation failed on the GPU (graphics engine exception)", restartNode, false},
	31:  {"a program accessed memory it does not own (GPU memory page fault)", restartNode, false},
	32:  {"the driver sent the GPU a corrupted command (push buffer)", restartNode, false},
	38:  {"driver firmware error", rebootHost, false},
	43:  {"a program's work on the GPU was ended after a fault of that program; the GPU is fine", restartNode, false},
	45:  {"work on the GPU was cleaned up after another error or after its process was killed", "nothing, unless it occurs alone and often", false},
	48:  {"uncorrectable memory error (double-bit ECC)", resetGPU, false}, // 94 or 95 reports the extent
	61:  {"a controller inside the GPU warned", "nothing; if the error returns, reboot the machine", false},
	62:  {"a controller inside the GPU halted", resetGPU, true},
	63:  {"defective memory was recorded and will be remapped at the next reset", "let the run end, then sudo nvidia-smi --gpu-reset -i GPU", false},
	64:  {"defective memory could not be recorded for remapping", resetGPU + "; if the error returns, have the card replaced", false},
	69:  {"a program's computation failed on the GPU (graphics engine class error)", restartNode, false},
	74:  {"error on the NVLink between GPUs", "use the GPUs separately (gpus_per_node: 1); if the error returns, have the bridge checked", false},
	79:  {"the GPU has fallen off the bus", rebootHost, true},
	92:  {"many corrected memory errors", "let the run end, then have the card checked", false},
	94:  {"a memory error that affected one program only (contained ECC error)", restartNode + "; reset the GPU when the run has ended", false},
	95:  {"a memory error that may have affected every program (uncontained ECC error)", resetGPU, true},
	109: {"a program held the GPU too long at a context switch", restartNode, false},
	119: {"the GPU's system processor does not answer (GSP RPC timeout)", rebootHost + ", or the driver option NVreg_EnableGpuFirmware=0", true},
	120: {"the GPU's system processor failed (GSP error)", rebootHost + ", or the driver option NVreg_EnableGpuFirmware=0", true},
	140: {"the GPU could not recover from a memory error", resetGPU, true},
	154: {"the driver wants the GPU to be reset or drained", "see GPU Recovery Action in the output of nvidia-smi -q", false},
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
