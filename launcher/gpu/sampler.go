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

// Sample queries every device. A device that is lost or can't be read is in the sample with a Problem. The error is
// ctx's cause, or reports that the driver does not answer. A later call may still get the answer.
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
