package tune

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
)

// measuring runs the measurements of one profile.
type measuring struct {
	t        *Answer
	template attempt.Template
	devices  *job.Devices // nil: host memory of the process tree
}

// claim reserves the GPU exclusively during the measurement. Jobs of swarm run would disturb the measurement, and it
// would disturb them.
func (m *measuring) claim(ctx context.Context) (release func(), err error) {
	q, err := queue.Open(m.t.s.Home.Queue())
	if err != nil {
		return nil, err
	}
	ticket, err := q.Enter("swarm tune", queue.Need{GPU: m.t.meter.UUID, Exclusive: true})
	if err != nil {
		return nil, err
	}
	release = func() {
		if err := ticket.Leave(); err != nil {
			m.t.s.Logger.Debug("queue", "error", err) // the ticket ends with this process
		}
	}
	_, err = ticket.Wait(ctx, time.Second, 0, m.devices.Look, nil)
	if errors.Is(err, queue.ErrTimeout) {
		err = fit.NoRoom(fmt.Errorf("GPU %d is in use by other jobs, so memory cannot be measured. Try: again when they have ended (swarm status)", m.t.meter.Index))
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// walk measures the sizes. If fewer than two fit, it continues with smaller ones.
func (m *measuring) walk(ctx context.Context, sizes []int) error {
	fitted := 0
	least := sizes[0]
	for i := 0; i < profileRuns && len(sizes) > 0; i++ {
		batch := sizes[0]
		sizes = sizes[1:]
		point, err := m.run(ctx, batch)
		if err != nil {
			return err
		}
		m.t.profile.Points = append(m.t.profile.Points, point)
		if point.Fits {
			fitted++
		} else {
			sizes = nil
		}
		if len(sizes) == 0 && fitted < 2 {
			if least /= 2; least < 1 {
				break
			}
			sizes = []int{least}
		}
	}
	slices.SortFunc(m.t.profile.Points, func(a, b Point) int { return a.Batch - b.Batch })
	return nil
}

// run measures one batch size: until the command ends, its peak has long stopped growing, or its time is up.
func (m *measuring) run(ctx context.Context, batch int) (Point, error) {
	point := Point{Batch: batch, Estimate: m.t.expected(batch)}
	spec, err := m.spec(batch)
	if err != nil {
		return point, err
	}
	peak := &peakWatch{growing: time.Now()}
	spec.Sampled = func(u attempt.Usage) { peak.observe(m.bytes(u)) }
	spec.Warn = func(line string) { fmt.Fprintln(m.t.s.Stderr, "Warning:", line) }
	if m.devices != nil {
		before, err := m.inUse(ctx)
		if err != nil {
			return point, err
		}
		spec.GPUMemory = func(pids []int) (int64, bool) { return m.gpuMemory(before, pids) }
	}
	fmt.Fprintf(m.t.s.Stderr, "Measuring with a batch of %d.\n", batch)
	p, err := attempt.Start(spec)
	if err != nil {
		return point, err
	}
	limit := time.Duration(m.t.o.Seconds) * time.Second
	if err := awaitPeak(ctx, p, peak, limit); err != nil { // it was stopped, or can't be stopped: don't wait for it
		return point, err
	}
	outcome := p.Wait()
	point.Seconds = outcome.Seconds
	peak.observe(m.bytes(outcome.Peak))
	switch {
	case outcome.Shortage != nil || outcome.OOMKilled:
		return point, nil
	case !outcome.Stopped && outcome.Status() != 0:
		return point, fmt.Errorf("the command failed with a batch of %d: exit code %d. Try: run it by hand; its output is above", batch, outcome.Status())
	case peak.most <= 0:
		return point, fmt.Errorf("no memory use could be measured with a batch of %d in %.1f s. Try: a longer run, on the GPU",
			batch, outcome.Seconds)
	}
	point.Bytes, point.Fits = peak.most, true
	return point, nil
}

func (m *measuring) spec(batch int) (attempt.Spec, error) {
	steps, target := 1, m.t.target()
	if target > 0 {
		steps = max(1, target/(batch*m.t.devices()))
	}
	device := attempt.Device{CPU: true, Index: -1}
	values := map[string]string{
		attempt.BatchSize: strconv.Itoa(batch), attempt.Accumulate: strconv.Itoa(steps),
		attempt.EffectiveBatch: strconv.Itoa(batch * steps * m.t.devices()), attempt.GradientCheckpointing: "", attempt.Offload: "",
		attempt.DevicePlace: "cuda:0", attempt.GPUPlace: "0", // the GPU that CUDA_VISIBLE_DEVICES shows
	}
	if card := m.t.meter; card != nil {
		device = attempt.Device{Index: card.Index, UUID: card.UUID}
	} else {
		values[attempt.DevicePlace], values[attempt.GPUPlace] = "cpu", ""
	}
	args, err := m.template.Expand(values)
	if err != nil {
		return attempt.Spec{}, err
	}
	program, err := job.FindProgram(args[0])
	if err != nil {
		return attempt.Spec{}, err
	}
	dir, err := filepath.Abs(m.t.o.Dir)
	return attempt.Spec{
		Path: program, Args: args[1:], Env: attempt.Unbuffered(attempt.Environment(m.t.s.Environ, device)), Dir: dir,
		Stdout: m.t.s.Stderr, Stderr: m.t.s.Stderr, Interval: profileInterval,
	}, err
}

func (m *measuring) bytes(u attempt.Usage) int64 {
	if m.devices != nil {
		return u.GPUBytes
	}
	return u.HostBytes
}

// inUse returns the bytes in use on the card by all processes.
func (m *measuring) inUse(ctx context.Context) (int64, error) {
	list, err := m.devices.Look(ctx)
	for _, device := range list {
		if device.GPU == m.t.meter.UUID {
			return device.Total - device.Free, nil
		}
	}
	if err == nil {
		err = fit.NoRoom(fmt.Errorf("GPU %d is no longer usable. Try: swarm gpu --once", m.t.meter.Index))
	}
	return 0, err
}

// gpuMemory returns the bytes of the command's processes. If the driver does not report processes, it returns the
// increase of the card's used memory since the command's start.
func (m *measuring) gpuMemory(before int64, pids []int) (int64, bool) {
	return m.devices.Used(m.t.meter.UUID, pids, before, true)
}

// peakWatch records the largest memory, and the time of its last growth.
type peakWatch struct {
	mu      sync.Mutex
	most    int64
	growing time.Time
}

func (p *peakWatch) observe(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if float64(bytes) > (1+profileGrowth)*float64(p.most) {
		p.growing = time.Now()
	}
	p.most = max(p.most, bytes)
}

func (p *peakWatch) quiet() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most == 0 {
		return 0
	}
	return time.Since(p.growing)
}

// awaitPeak returns when the command has ended. It stops the command at the time limit, if the peak hasn't grown for
// half of the limit, and if ctx ends.
func awaitPeak(ctx context.Context, p *attempt.Process, peak *peakWatch, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(profileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.Done():
			return nil
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), p.Stop())
		case <-deadline.C:
			return p.Stop()
		case <-ticker.C:
			if peak.quiet() > limit/2 {
				return p.Stop()
			}
		}
	}
}
