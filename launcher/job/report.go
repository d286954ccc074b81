package job

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// deviceText names the device of an attempt.
func (j *Job) deviceText() string {
	if j.onCPU() {
		return "the CPU"
	}
	return fmt.Sprintf("GPU %d (%s)", j.claim.Index, j.claim.Name)
}

// settingText describes an attempt's setting.
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

// reportEnd reports how the command ended.
func (j *Job) reportEnd(o attempt.Outcome) {
	text, reason := "done", ""
	switch {
	case o.Stopped:
		text = "stopped"
	case o.Signal != 0:
		text, reason = fmt.Sprintf("ended by signal %d (%s)", int(o.Signal), o.Signal), ", not because of a memory shortage"
	case o.ExitCode != 0:
		text, reason = fmt.Sprintf("failed with exit code %d", o.ExitCode), ", not because of a memory shortage"
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
		text += "; the next run begins with this setting"
	}
	j.say("%s", text)
}

// document reports the job in the form of swarm status JOB -o json.
func (j *Job) document(ctx context.Context) error {
	return j.reading(context.WithoutCancel(ctx), func(r *store.Reader) error {
		found, err := r.Job(context.WithoutCancel(ctx), j.row.Job)
		if err != nil {
			return err
		}
		return j.s.Report(Describe(found))
	})
}

// say writes a message about the job itself to the user and to the log.
func (j *Job) say(format string, args ...any) {
	line := "swarm run: " + charset.Fit(fail.OneLine(fmt.Sprintf(format, args...)), j.s.Environ) + "\n"
	j.stderr.say(line)
	if j.log != nil {
		j.logged.say(line)
	}
}

// shortageText describes a shortage in numbers.
func shortageText(s shortage.Report) string {
	parts := []string{"the GPU's, says " + string(s.Kind)}
	switch {
	case s.Kind == shortage.HostKilled:
		parts[0] = "the host's, which killed its processes"
	case s.Kind == shortage.HostAllocation:
		parts[0] = "the host's"
	case s.OnHost:
		parts[0] = "the host's, says " + string(s.Kind)
	}
	for _, n := range []struct {
		what  string
		bytes int64
	}{{"asked for", s.Asked}, {"free", s.Free}, {"of", s.Total}} {
		if n.bytes > 0 {
			parts = append(parts, n.what+" "+units.Bytes(n.bytes))
		}
	}
	return strings.Join(parts, ", ")
}
