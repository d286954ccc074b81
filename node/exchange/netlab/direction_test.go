package netlab

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_700_000_000, 0)

// For any conditions and times of sending, packets arrive in order, not before their delay, not faster than the rate,
// and each is counted.
func TestDirectionKeepsItsConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Conditions{
			Delay:     time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "delay")),
			Jitter:    time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "jitter")),
			Loss:      rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "loss"),
			RateBytes: rapid.SampledFrom([]float64{0, 1000, 1e6}).Draw(t, "rate"),
		}
		d := newDirection(rapid.Uint64().Draw(t, "seed"), nil)
		d.set(c, false)
		sent := map[byte]time.Time{}
		now, began, size := epoch, epoch, 0
		count := rapid.IntRange(0, 100).Draw(t, "packets")
		for i := range count {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "pause")))
			packet := make([]byte, rapid.IntRange(1, mtu).Draw(t, "size"))
			packet[0] = byte(i)
			sent[byte(i)] = now
			d.accept(packet, now)
		}
		newest := -1
		for {
			arrived, next := d.due(now)
			for _, p := range arrived {
				if int(p.packet[0]) <= newest {
					t.Fatalf("packet %d after %d", p.packet[0], newest)
				}
				newest = int(p.packet[0])
				if p.at.Before(sent[p.packet[0]].Add(c.Delay)) {
					t.Fatalf("packet %d took %s", newest, p.at.Sub(sent[p.packet[0]]))
				}
				size += len(p.packet)
				if c.RateBytes > 0 && float64(size) > c.RateBytes*p.at.Sub(began).Seconds()*(1+1e-6)+1 {
					t.Fatalf("%d bytes by %s", size, p.at.Sub(began))
				}
			}
			if next.IsZero() {
				break
			}
			now = next
		}
		n := d.count()
		if n.Packets+n.Lost+n.Overflowed != int64(count) || n.Cut != 0 || c.Loss == 1 && n.Packets != 0 {
			t.Fatalf("%d sent: %+v", count, n)
		}
	})
}

func TestACutTakesWhatIsUnderWay(t *testing.T) {
	d := newDirection(1, nil)
	d.set(Conditions{Delay: time.Second}, false)
	d.accept([]byte{1}, epoch)
	d.set(Conditions{Delay: time.Second}, true)
	d.accept([]byte{2}, epoch)
	d.set(Conditions{Delay: time.Second}, false)
	d.accept([]byte{3}, epoch)
	arrived, _ := d.due(epoch.Add(time.Minute))
	if len(arrived) != 1 || arrived[0].packet[0] != 3 || d.count().Cut != 2 {
		t.Fatalf("%v arrived, %+v", arrived, d.count())
	}
}

func TestLossIsWhatWasSet(t *testing.T) {
	const n, loss = 20000, 0.05
	d := newDirection(1, nil)
	d.set(Conditions{Loss: loss}, false)
	for range n {
		d.accept([]byte{0}, epoch)
	}
	got, sigma := float64(d.count().Lost)/n, math.Sqrt(loss*(1-loss)/n)
	if math.Abs(got-loss) > 4*sigma {
		t.Fatalf("lost %v of %v", got, loss)
	}
}

// A queue of half a second at 1000 bytes/s holds 500 bytes and the packet that is being sent.
func TestAFullQueueDrops(t *testing.T) {
	d := newDirection(1, nil)
	d.set(Conditions{RateBytes: 1000, Queue: 500 * time.Millisecond}, false)
	for range 20 {
		d.accept(make([]byte, 100), epoch)
	}
	arrived, _ := d.due(epoch.Add(time.Minute))
	if len(arrived) != 6 || d.count().Overflowed != 14 {
		t.Fatalf("%d arrived, %+v", len(arrived), d.count())
	}
}
