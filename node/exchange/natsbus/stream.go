package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// streamBytes bounds what one run stores. A round of eight nodes is about half a megabyte.
const streamBytes = 1 << 30

// streamConfig returns the configuration of a run's stream. With one message per subject and no replacing, the first
// batch of a (round, node) is the only one. A full stream refuses batches instead of dropping rounds that a node may
// still wait for.
func streamConfig(s subjects) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 s.stream,
		Subjects:             []string{s.prefix + ".rollouts.*.*", s.probe()},
		Storage:              jetstream.FileStorage,
		Retention:            jetstream.LimitsPolicy,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxBytes:             streamBytes,
		MaxMsgSize:           exchange.MaxBatchBytes + headerRoom/2,
		AllowDirect:          true,
		RePublish: &jetstream.RePublish{
			Source:      s.prefix + ".rollouts.*.*",
			Destination: s.prefix + ".shared.{{wildcard(1)}}.{{wildcard(2)}}",
			HeadersOnly: true,
		},
	}
}

func createStream(ctx context.Context, js jetstream.JetStream, run string, replicas int) error {
	s, err := newSubjects(run)
	if err != nil {
		return err
	}
	config := streamConfig(s)
	config.Replicas = replicas
	if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
		return fmt.Errorf("create the stream of run %s: %w", run, err)
	}
	return nil
}

func deleteStream(ctx context.Context, js jetstream.JetStream, run string) error {
	s, err := newSubjects(run)
	if err != nil {
		return err
	}
	if err := js.DeleteStream(ctx, s.stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the stream of run %s: %w", run, err)
	}
	return nil
}

func purge(ctx context.Context, js jetstream.JetStream, run string, beforeRound int) error {
	s, err := newSubjects(run)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, s.stream)
	if err != nil {
		return fmt.Errorf("purge run %s: %w", run, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.prefix+".rollouts.>"))
	if err != nil {
		return fmt.Errorf("purge run %s: %w", run, err)
	}
	for token, round := range storedRounds(s, info) {
		if round >= beforeRound {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(s.prefix+".rollouts."+token+".*")); err != nil {
			return fmt.Errorf("purge run %s: %w", run, err)
		}
	}
	return nil
}

// storedRounds returns the rounds in a stream, by their subject token. A token that isn't a number comes from an
// untrusted sender. It maps to -1, so that purges drop it.
func storedRounds(s subjects, info *jetstream.StreamInfo) map[string]int {
	rounds := make(map[string]int)
	for subject := range info.State.Subjects {
		token := s.roundToken(subject)
		round, err := strconv.Atoi(token)
		if err != nil {
			round = -1
		}
		rounds[token] = round
	}
	return rounds
}
