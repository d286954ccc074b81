package retry_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

const gib = 1 << 30

var (
	onGPU  = shortage.Report{Kind: shortage.Torch, Asked: 2 * gib, Free: gib, Total: 24 * gib, InUse: 20 * gib}
	onHost = shortage.Report{Kind: shortage.HostKilled, OnHost: true, GPU: -1}
)

func whole() retry.Policy {
	return retry.Policy{
		MinBatchSize: 4, MaxRetries: 100, CanBatch: true, CanAccumulate: true, CanCheckpoint: true, CanOffload: true, OtherGPU: true, CPU: true,
	}
}

// follow tries until nothing is left, with the same shortage each time.
func follow(p retry.Policy, s retry.Setting, r shortage.Report, others []retry.GPU) (steps []string, settings []retry.Setting, end error) {
	history := []retry.Outcome{{Setting: s, Shortage: r, Free: 20 * gib}}
	for {
		before := history[len(history)-1].Setting
		next, _, err := p.Next(history, others)
		if err != nil {
			return steps, settings, err
		}
		steps, settings = append(steps, changed(before, next)), append(settings, next)
		history = append(history, retry.Outcome{Setting: next, Shortage: r, Free: 20 * gib})
	}
}

func TestTheLadderGoesDownStepByStepAndKeepsTheEffectiveBatch(t *testing.T) {
	steps, settings, end := follow(whole(), retry.Setting{BatchSize: 32, Accumulate: 2, GPU: "a"}, onGPU,
		[]retry.GPU{{UUID: "b", Free: 22 * gib}, {UUID: "c", Free: 70 * gib}, {UUID: "d", Free: 30 * gib}})
	want := []string{"batch", "batch", "batch", "gradient_checkpointing", "offload", "gpu", "gpu", "cpu"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	for i, s := range settings {
		if s.Effective() != 64 {
			t.Errorf("step %d has the effective batch %d: %+v", i+1, s.Effective(), s)
		}
	}
	if got := settings[3]; got != (retry.Setting{BatchSize: 4, Accumulate: 16, GradientCheckpointing: true, GPU: "a"}) {
		t.Errorf("checkpointing starts from %+v", got)
	}
	if first, second := settings[5].GPU, settings[6].GPU; first != "c" || second != "d" {
		t.Errorf("GPUs %s, %s; b has hardly more free than a had", first, second)
	}
	if got := settings[7]; !got.OnCPU || got.GPU != "" || got.Offload {
		t.Errorf("on the CPU: %+v", got)
	}
	if !errors.Is(end, retry.ErrNoMore) || !strings.Contains(end.Error(), "Try: ") {
		t.Errorf("in the end: %v", end)
	}
}

func TestHostMemoryIsNotMendedByWhatTakesMoreOfIt(t *testing.T) {
	steps, _, end := follow(whole(), retry.Setting{BatchSize: 16, GPU: "a"}, onHost, []retry.GPU{{UUID: "b", Free: 70 * gib}})
	if want := []string{"batch", "batch", "gradient_checkpointing"}; !slices.Equal(steps, want) || !errors.Is(end, retry.ErrNoMore) {
		t.Errorf("steps %q, want %q; %v", steps, want, end)
	}
}

func TestWhatOffloadBroughtAboutIsNoShortageOfTheHosts(t *testing.T) {
	base := retry.Setting{BatchSize: 4, GradientCheckpointing: true, GPU: "a"}
	off := base
	off.Offload = true
	history := []retry.Outcome{{Setting: base, Shortage: onGPU}, {Setting: off, Shortage: onHost}}
	got, why, err := whole().Next(history, []retry.GPU{{UUID: "b", Free: 70 * gib}})
	if base.GPU = "b"; err != nil || got != base {
		t.Errorf("%+v, %s, %v; want the other GPU, without offload", got, why, err)
	}
	if got, _, err := whole().Next(history, nil); err == nil {
		t.Errorf("%+v: the CPU has no more host memory", got)
	}
}

func TestNext(t *testing.T) {
	crowded := onGPU
	crowded.Holders = []shortage.Holder{{PID: 7, Bytes: 10 * gib}}
	absurd := onGPU
	absurd.Asked = 100 * gib
	row := func(change func(*retry.Policy)) retry.Policy {
		p := whole()
		change(&p)
		return p
	}
	for _, c := range []struct {
		name   string
		policy retry.Policy
		from   retry.Setting
		report shortage.Report
		others []retry.GPU
		want   retry.Setting
		why    string // substring of the reason or the error
	}{
		{"an odd batch keeps the effective batch where a divisor allows", whole(), retry.Setting{BatchSize: 45, Accumulate: 5}, onGPU, nil,
			retry.Setting{BatchSize: 15, Accumulate: 15}, "45 → 15, accumulation 5 → 15: the effective batch stays 225"},
		{"a prime batch has none", whole(), retry.Setting{BatchSize: 127}, onGPU, nil,
			retry.Setting{BatchSize: 63, Accumulate: 2}, "the effective batch changes from 127 to 126, because no batch size from 4 to 63 divides it"},
		{"a half below the least is the least", whole(), retry.Setting{BatchSize: 6, Accumulate: 2}, onGPU, nil,
			retry.Setting{BatchSize: 4, Accumulate: 3}, "the effective batch stays 12"},
		{"without a place for the accumulation the effective batch changes", row(func(p *retry.Policy) { p.CanAccumulate = false }),
			retry.Setting{BatchSize: 9}, onGPU, nil, retry.Setting{BatchSize: 4}, "changes from 9 to 4, because the command does not use {accumulate}"},
		{"a request beyond all memory is named", whole(), retry.Setting{BatchSize: 8}, absurd, nil,
			retry.Setting{BatchSize: 4, Accumulate: 2}, "one request was for 107.4 GB of a GPU with 25.8 GB"},
		{"a neighbour's memory makes any GPU with more the better one", row(func(p *retry.Policy) { p.CanCheckpoint, p.CanOffload = false, false }),
			retry.Setting{BatchSize: 4, GPU: "a"}, crowded, []retry.GPU{{UUID: "b", Free: 21*gib + 1}},
			retry.Setting{BatchSize: 4, GPU: "b"}, "other processes held 10.7 GB there"},
		{"without one it takes more", row(func(p *retry.Policy) { p.CanCheckpoint, p.CanOffload, p.CPU = false, false, false }),
			retry.Setting{BatchSize: 4, GPU: "a"}, onGPU, []retry.GPU{{UUID: "b", Free: 21*gib + 1}}, retry.Setting{},
			"no other GPU has clearly more free memory"},
		{"retries are counted", row(func(p *retry.Policy) { p.MaxRetries = 0 }), retry.Setting{BatchSize: 8}, onGPU, nil,
			retry.Setting{}, "0 of 0 retries are used up. Try: --max-retries 1"},
		{"without a place for anything the reasons are told", retry.Policy{MaxRetries: 3}, retry.Setting{}, onGPU, nil,
			retry.Setting{}, "the command does not use {batch_size}; the command does not use {gradient_checkpointing}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why, err := c.policy.Next([]retry.Outcome{{Setting: c.from, Shortage: c.report}}, c.others)
			if (c.want == retry.Setting{}) {
				if !errors.Is(err, retry.ErrNoMore) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%+v, %v; want ErrNoMore with %q", got, err, c.why)
				}
				return
			}
			if err != nil || got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("%+v, %q, %v; want %+v, %q", got, why, err, c.want, c.why)
			}
		})
	}
	if _, _, err := whole().Next(nil, nil); err == nil || errors.Is(err, retry.ErrNoMore) {
		t.Errorf("without an outcome: %v", err)
	}
}

func TestEveryLadderEndsAndEachStepOfItIsSmaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{
			MinBatchSize: rapid.IntRange(0, 9).Draw(t, "least"), MaxRetries: rapid.IntRange(0, 60).Draw(t, "retries"),
			CanBatch: rapid.Bool().Draw(t, "batch"), CanAccumulate: rapid.Bool().Draw(t, "accumulate"), CanCheckpoint: rapid.Bool().Draw(t, "checkpoint"),
			CanOffload: rapid.Bool().Draw(t, "offload"), OtherGPU: rapid.Bool().Draw(t, "gpu"), CPU: rapid.Bool().Draw(t, "cpu"),
		}
		from := retry.Setting{BatchSize: rapid.IntRange(0, 3000).Draw(t, "size"), Accumulate: rapid.IntRange(0, 20).Draw(t, "times"), GPU: "a"}
		report := rapid.SampledFrom([]shortage.Report{onGPU, onHost, {GPU: -1}}).Draw(t, "report")
		_, settings, err := follow(p, from, report, []retry.GPU{{UUID: "b", Free: 70 * gib}})
		if !errors.Is(err, retry.ErrNoMore) || len(settings) > p.MaxRetries {
			t.Fatalf("%d steps, %v", len(settings), err)
		}
		least := max(1, p.MinBatchSize)
		for before, i := from, 0; i < len(settings); before, i = settings[i], i+1 {
			s := settings[i]
			switch step := changed(before, s); {
			case step == "":
				t.Fatalf("%+v is tried twice", s)
			case report.OnHost && (step == stepGPU || step == stepCPU || step == stepOffload):
				t.Fatalf("%s for the host's memory", step)
			case step != stepBatch:
				if s.BatchSize != before.BatchSize || s.Accumulate != before.Accumulate {
					t.Fatalf("%s changed the batch: %+v → %+v", step, before, s)
				}
				continue
			}
			limit := max(before.BatchSize/2, least)
			if s.BatchSize < least || s.BatchSize > limit {
				t.Fatalf("batch %d, not within %d and %d", s.BatchSize, least, limit)
			}
			divisor := p.CanAccumulate && slices.ContainsFunc(upTo(least, limit), func(b int) bool { return before.Effective()%b == 0 })
			if divisor && s.Effective() != before.Effective() {
				t.Fatalf("the effective batch of %+v is lost: %+v", before, s)
			}
			if off := max(s.Effective()-before.Effective(), before.Effective()-s.Effective()); p.CanAccumulate && off > s.BatchSize/2 {
				t.Fatalf("the effective batch of %+v is missed by %d: %+v", before, off, s)
			}
		}
	})
}

func upTo(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func TestAJobBeginsWithWhatFittedButNotAboveWhatWasAsked(t *testing.T) {
	asked := retry.Setting{BatchSize: 64, Accumulate: 2, GPU: "a"}
	ran := []retry.Setting{{BatchSize: 64, Accumulate: 4, GPU: "b"}}
	for _, c := range []struct {
		name       string
		remembered *retry.Setting
		short      []retry.Setting
		want       retry.Setting
		why        string
	}{
		{"nothing is known", nil, ran, asked, ""},
		{"a smaller one fitted", &retry.Setting{BatchSize: 16, GPU: "z"}, ran,
			retry.Setting{BatchSize: 16, Accumulate: 8, GPU: "a"}, "as fitted last time: batch size 64 → 16"},
		{"one that does not divide", &retry.Setting{BatchSize: 50}, ran, retry.Setting{BatchSize: 32, Accumulate: 4, GPU: "a"}, "stays 128"},
		{"a larger one fitted", &retry.Setting{BatchSize: 256}, ran, asked, ""},
		{"only with checkpointing and offload", &retry.Setting{BatchSize: 64, GradientCheckpointing: true, Offload: true}, ran,
			retry.Setting{BatchSize: 64, Accumulate: 2, GPU: "a", GradientCheckpointing: true, Offload: true}, "gradient checkpointing; offload"},
		{"without a batch", &retry.Setting{}, ran, asked, ""},
		{"a smaller one was asked for, and nothing ran out", &retry.Setting{BatchSize: 16}, nil, asked, ""},
		{"only larger ones ran out", &retry.Setting{BatchSize: 16}, []retry.Setting{{BatchSize: 65}}, asked, ""},
		{"even a smaller one ran out", &retry.Setting{BatchSize: 16}, []retry.Setting{{BatchSize: 65}, {BatchSize: 32}},
			retry.Setting{BatchSize: 16, Accumulate: 8, GPU: "a"}, "batch size 64 → 16"},
		{"even with checkpointing it ran out", &retry.Setting{BatchSize: 64, Offload: true}, []retry.Setting{{BatchSize: 64, GradientCheckpointing: true}},
			retry.Setting{BatchSize: 64, Accumulate: 2, GPU: "a", Offload: true}, "offload"},
	} {
		got, why := whole().Start(c.remembered, c.short, asked)
		if got != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, got, why, c.want, c.why)
		}
	}
}
