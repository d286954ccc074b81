package shortage

import (
	"bytes"
	"fmt"
	"testing"
)

// training returns the output of a long run: steps, progress bars, warnings, and some tracebacks of caught
// exceptions.
func training(size int) []byte {
	var b bytes.Buffer
	for step := 0; b.Len() < size; step++ {
		fmt.Fprintf(&b, "2026-01-01 10:00:%02d,123 INFO trainer.py: step %d loss %.4f grad_norm %.3f lr 3.0e-05 tokens/s %d\n",
			step%60, step, 2.3, 0.7, 40000)
		if step%5 == 0 {
			fmt.Fprintf(&b, "\r %2d%%|███       | %d/100000 [00:10<09:50, 41.2it/s, loss=2.31, mem=17.2GiB]", step%100, step)
		}
		if step%50 == 0 {
			fmt.Fprintf(&b, "gpu 0: memory allocated 17.2 GiB, reserved 19.0 GiB, errors 0\n")
		}
	}
	return b.Bytes()
}

var sink int

// BenchmarkScanner must be compared with BenchmarkCountingLines of the same run, which only looks for line ends.
func BenchmarkScanner(b *testing.B) {
	data := training(8 << 20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s := NewScanner()
		for p := data; len(p) > 0; p = p[min(len(p), 32<<10):] {
			s.Write(p[:min(len(p), 32<<10)])
		}
		s.Close()
	}
}

// BenchmarkScannerOnTalkOfMemory has a trigger word in every line.
func BenchmarkScannerOnTalkOfMemory(b *testing.B) {
	line := "2026-01-01 10:00:00,123 INFO trainer.py: step 12 loss 2.3 memory allocated 17.2 GiB reserved 19 GiB errors 0\n"
	data := bytes.Repeat([]byte(line), 20_000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s := NewScanner()
		s.Write(data)
	}
}

func BenchmarkCountingLines(b *testing.B) {
	data := training(8 << 20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		for p := data; len(p) > 0; p = p[min(len(p), 32<<10):] {
			sink += bytes.Count(p[:min(len(p), 32<<10)], []byte("\n"))
		}
	}
}
