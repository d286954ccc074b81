package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Sampler asks NVML for the visible GPUs again and again. It has one goroutine of its own, which listens for XID
// errors. Its methods are for one goroutine at a time.
type Sampler struct {
	limit   time.Duration // of one call, also of Close
	session *session
	devices []handle
	owed    chan Sample // what the driver has been asked for and not yet answered; nil: nothing
	xids    *xidWatch
}

// OpenSampler opens NVML for the GPUs that are visible now: one that appears later, or that CUDA doesn't show, is not
// sampled. Where there is no usable driver or no GPU the error is what Detect gives as Host.Reason. Close it.
func OpenSampler(ctx context.Context) (*Sampler, error) {
	return openSampler(ctx, queryLimit)
}

func openSampler(ctx context.Context, limit time.Duration) (*Sampler, error) {
	type opened struct {
		sampler *Sampler
		reason  string
	}
	answer, err := bounded(ctx, limit, func() opened {
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
	})
	switch {
	case errors.Is(err, errNoAnswer):
		return nil, errors.New(silent(limit))
	case err != nil:
		return nil, err
	case answer.sampler == nil:
		return nil, errors.New(answer.reason)
	}
	return answer.sampler, nil
}

// Sample asks for every device. A device that can't be read, or is lost, is in the sample with a Problem; the error is
// ctx's cause, or that the driver does not answer at all: it may answer later.
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
		return Sample{}, errors.New(silent(s.limit))
	}
	if err != nil {
		return Sample{}, err
	}
	s.owed = nil
	sample.XIDs = s.xids.take()
	return sample, nil
}

// Close ends the listening and closes NVML. A driver that hangs is left alone.
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
