package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Sampler queries the visible GPUs repeatedly through NVML. It runs one goroutine that listens for XID errors. Use
// its methods from one goroutine at a time.
type Sampler struct {
	limit   time.Duration // for one call, including Close
	session *session
	devices []handle
	owed    chan Sample // receives the answer of a query that the driver still runs; nil: no query
	xids    *xidWatch
}

// OpenSampler opens NVML for the GPUs that are visible at the call. It never samples GPUs that appear later or that
// CUDA hides. Without a usable driver or GPU the error is the same text as Host.Reason of Detect. Call Close at the
// end.
func OpenSampler(ctx context.Context) (*Sampler, error) {
	return openSampler(ctx, queryLimit)
}

func openSampler(ctx context.Context, limit time.Duration) (*Sampler, error) {
	type opened struct {
		sampler *Sampler
		reason  string
	}
	open := func() opened {
		s := &Sampler{limit: limit}
		var reason string
		if s.session, reason = openSession(); s.session == nil {
			return opened{nil, reason}
		}
		s.devices, reason = s.session.enumerate()
		if len(s.devices) > 0 {
			s.devices, reason = visible(s.devices, reason)
		}
		if len(s.devices) == 0 {
			s.session.close()
			return opened{nil, reason}
		}
		s.xids = s.session.watchXIDs(s.devices)
		return opened{s, ""}
	}
	answer := make(chan opened, 1)
	go func() { answer <- open() }()
	found, err := await(ctx, limit, answer)
	switch {
	case err != nil:
		go func() {
			if late := <-answer; late.sampler != nil {
				late.sampler.Close()
			}
		}()
		if errors.Is(err, errNoAnswer) {
			err = errors.New(silent(limit))
		}
		return nil, err
	case found.sampler == nil:
		return nil, errors.New(found.reason)
	}
	return found.sampler, nil
}

// Sample queries every device. A device that is lost or can't be read is in the sample with a Problem. The error is
// ctx's cause, or reports that the driver does not answer. A later call may still get the answer. With an error, every
// device has the error as its Problem, and the sample still has the XIDs.
func (s *Sampler) Sample(ctx context.Context) (Sample, error) {
	if s.owed == nil {
		s.owed = make(chan Sample, 1)
		go func(answer chan<- Sample) {
			sample := Sample{Time: event.Now()}
			for _, h := range s.devices {
				sample.Devices = append(sample.Devices, s.session.read(h))
			}
			answer <- sample
		}(s.owed)
	}
	sample, err := await(ctx, s.limit, s.owed)
	if errors.Is(err, errNoAnswer) {
		err = errors.New(silent(s.limit))
	}
	if err != nil {
		sample = Sample{Time: event.Now()}
		for _, h := range s.devices {
			sample.Devices = append(sample.Devices, h.unread(err.Error()))
		}
	} else {
		s.owed = nil
	}
	sample.XIDs = s.xids.take()
	return sample, err
}

// Close stops listening and closes NVML. If the driver hangs, Close gives up after the limit.
func (s *Sampler) Close() {
	_, _ = bounded(context.Background(), s.limit, func() struct{} {
		s.xids.close()
		if s.owed != nil {
			<-s.owed
		}
		s.session.close()
		return struct{}{}
	})
}
