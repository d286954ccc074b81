package fit

import (
	"fmt"
	"math"
	"strings"
)

// Card is the peak performance of a GPU by NVIDIA's data sheets (dense, no sparsity), and the part that training
// reaches.
type Card struct {
	Name      string
	Bandwidth float64 // of its memory, bytes per second

	match                []string // prefixes of NVML's product name, after NVIDIA and Tesla
	memory               float64  // bytes; nominal
	fp32, tf32, half     float64  // FLOP/s; 0: not supported
	tf32Share, halfShare float64  // part of the peak that updates reach
}

// peaks lists the known cards. The shares of A100 and H100 are from the published figures (GPT-2 124M in eager
// PyTorch with TF32, compiled in bf16). The shares of the other cards are assumptions based on the A100, in FP32 half
// of the peak.
var peaks = []Card{
	{Name: "H200", match: []string{"H200"}, Bandwidth: 4.8e12, memory: 141e9, fp32: 67e12, tf32: 495e12, half: 989e12,
		tf32Share: 0.23, halfShare: 0.44},
	{Name: "H100 80GB", match: []string{"H100 80GB HBM3", "H100 SXM5", "H100-SXM5"}, Bandwidth: 3.35e12, memory: 80e9, fp32: 67e12,
		tf32: 495e12, half: 989e12, tf32Share: 0.23, halfShare: 0.44},
	{Name: "H100 PCIe", match: []string{"H100 PCIe", "H100-PCIE"}, Bandwidth: 2.0e12, memory: 80e9, fp32: 51e12, tf32: 378e12, half: 756e12,
		tf32Share: 0.23, halfShare: 0.44},
	{Name: "A100 80GB", match: []string{"A100-SXM4-80GB", "A100 80GB", "A100-SXM-80GB"}, Bandwidth: 2.039e12, memory: 80e9, fp32: 19.5e12,
		tf32: 156e12, half: 312e12, tf32Share: 0.3, halfShare: 0.52},
	{Name: "A100 40GB", match: []string{"A100-SXM4-40GB", "A100-PCIE-40GB", "A100-SXM-40GB"}, Bandwidth: 1.555e12, memory: 40e9, fp32: 19.5e12,
		tf32: 156e12, half: 312e12, tf32Share: 0.3, halfShare: 0.52},
	{Name: "V100 32GB", match: []string{"V100"}, Bandwidth: 0.9e12, memory: 32e9, fp32: 15.7e12, half: 125e12, halfShare: 0.3},
	{Name: "L4 24GB", match: []string{"L4"}, Bandwidth: 0.3e12, memory: 24e9, fp32: 30.3e12, tf32: 60e12, half: 121e12,
		tf32Share: 0.3, halfShare: 0.52},
	{Name: "T4 15GB", match: []string{"T4"}, Bandwidth: 0.32e12, memory: 16e9, fp32: 8.1e12, half: 65e12, halfShare: 0.3},
}

// fp32Share is the part of its FP32 peak that a card reaches without TF32.
const fp32Share = 0.5

// CardNamed returns the card with NVML's product name. It returns false if the peaks are unknown, as for a part of a
// card (MIG, vGPU).
func CardNamed(name string) (Card, bool) {
	model := strings.TrimPrefix(strings.TrimPrefix(name, "NVIDIA "), "Tesla ")
	if strings.Contains(model, "MIG") {
		return Card{}, false
	}
	for _, c := range peaks {
		for _, begin := range c.match {
			if rest, ok := strings.CutPrefix(model, begin); ok && (rest == "" || rest[0] == ' ' || rest[0] == '-') {
				return c, true
			}
		}
	}
	return Card{}, false
}

// CardOfSize returns guide 4's card with about that much memory, for a plan with a hypothetical card. It returns false
// if guide 4 has none.
func CardOfSize(memory int64) (Card, bool) {
	for _, name := range []string{"H200", "A100 80GB", "A100 40GB", "V100 32GB", "L4 24GB", "T4 15GB"} {
		for _, c := range peaks {
			if c.Name == name && math.Abs(float64(memory)/c.memory-1) < 0.1 {
				return c, true
			}
		}
	}
	return Card{}, false
}

// Peak returns the FLOP/s that updates reach: the card's peak at the precision times the share that training uses.
func (c Card) Peak(precision string) float64 {
	peak, share := c.peak(precision)
	return peak * share
}

func (c Card) peak(precision string) (peak, share float64) {
	switch {
	case (precision == "bf16" || precision == "fp16") && c.half > 0:
		return c.half, c.halfShare
	case precision == "fp32" || c.tf32 == 0:
		return c.fp32, fp32Share
	}
	return c.tf32, c.tf32Share
}

// Describe states the assumptions behind a prediction at a precision.
func (c Card) Describe(precision string) string {
	peak, share := c.peak(precision)
	return fmt.Sprintf("%s: %.0f TFLOP/s at %s, of which updates reach %.0f %%; %.2f TB/s, of which decoding reaches %.0f %%",
		c.Name, peak/1e12, precision, 100*share, c.Bandwidth/1e12, 100*AssumedBandwidth)
}
