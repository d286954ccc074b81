package pretrain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Print prints the progress of training.
func (p Progress) Print(w io.Writer) {
	left := time.Duration(float64(p.Elapsed) / float64(p.Step) * float64(p.Steps-p.Step))
	fmt.Fprintf(w, "step %d/%d · loss %.4f nats a token · %.0f tokens/s · left %s\n",
		p.Step, p.Steps, p.Loss, float64(p.Tokens)/p.Elapsed.Seconds(), left.Round(time.Second))
	if p.Evaluation == nil {
		return
	}
	var parts []string
	for _, t := range p.Evaluation.Tasks {
		parts = append(parts, fmt.Sprintf("%s %.2f/%.2f", t.Task, t.Reward, t.Knows))
	}
	fmt.Fprintf(w, "step %d/%d · held out, reward/knows: %.3f/%.3f · %s\n",
		p.Step, p.Steps, p.Evaluation.Reward, p.Evaluation.Knows, strings.Join(parts, " · "))
}

// Print shows the model's final evaluation, and the command to train it further.
func (r Result) Print(w io.Writer, out string) {
	fmt.Fprintf(w, "%-26s %6s %8s %8s\n", "held-out questions of", "items", "reward", "knows")
	var items int
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "%-26s %6d %8.3f %8.3f\n", t.Task, t.Items, t.Reward, t.Knows)
		items += t.Items
	}
	fmt.Fprintf(w, "%-26s %6d %8.3f %8.3f\n", "all", items, r.Reward, r.Knows)
	fmt.Fprintf(w, "\n%s parameters, %.2f MB in %s, %.1f %% of completions in tags, %s, sha256 %s\n",
		units.Group(r.Parameters), float64(r.Bytes)/1e6, out, 100*r.FormatRate,
		units.Seconds(r.Seconds).Round(time.Second), r.SHA256)
	fmt.Fprintf(w, "Next: swarm up --model %s --config 4loc4ext --device cpu\n", out)
}
