package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// roomText says where an attempt runs.
func (j *job) roomText() string {
	if j.onCPU() {
		return "the CPU"
	}
	return fmt.Sprintf("GPU %d (%s)", j.claim.Index, j.claim.Name)
}

// settingText says what an attempt is made with.
func settingText(s retry.Setting, why string) string {
	text := ""
	if s.BatchSize > 0 {
		text = fmt.Sprintf(", batch size %d", s.BatchSize)
		if s.Accumulate > 1 {
			text += fmt.Sprintf(" × %d = %d", s.Accumulate, s.Effective())
		}
	}
	if s.GradientCheckpointing {
		text += ", gradient checkpointing"
	}
	if s.Offload {
		text += ", offload"
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// tell says how the job ended.
func (j *job) tell(o attempt.Outcome) {
	text, reason := "done", ""
	switch {
	case o.Stopped:
		text = "stopped"
	case o.Signal != 0:
		text, reason = fmt.Sprintf("ended by signal %d (%s)", int(o.Signal), o.Signal), ", not for want of memory"
	case o.ExitCode != 0:
		text, reason = fmt.Sprintf("failed with exit code %d", o.ExitCode), ", not for want of memory"
	}
	text += " after " + units.Seconds(o.Seconds).Round(time.Second/10).String() + reason
	var peaks []string
	if o.Peak.GPUBytes > 0 {
		peaks = append(peaks, units.Bytes(o.Peak.GPUBytes)+" of GPU memory")
	}
	if o.Peak.HostBytes >= 1e6 {
		peaks = append(peaks, units.Bytes(o.Peak.HostBytes)+" of host memory")
	}
	if len(peaks) > 0 {
		text += "; at most " + strings.Join(peaks, " and ")
	}
	if len(j.history) > 0 && o.Status() == 0 {
		text += "; the next time it begins with this"
	}
	j.say("%s", text)
}

// document prints the job as swarm status JOB -o json does.
func (j *job) document(ctx context.Context) error {
	return j.reading(context.WithoutCancel(ctx), func(r *store.Reader) error {
		found, err := r.Job(context.WithoutCancel(ctx), j.row.Job)
		if err != nil {
			return err
		}
		return writeJSON(j.g.stdout, describeJob(found))
	})
}
