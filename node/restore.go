package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// RestoreNewest restores the newest good checkpoint of a node's folder into an engine that has the node's model
// loaded. It returns the number of rounds in that checkpoint, 0 if the folder has none. The node may run meanwhile.
func RestoreNewest(ctx context.Context, dir string, engine Saver, logger *slog.Logger) (rounds int, err error) {
	c := &checkpoints{dir: dir, logger: logger}
	chosen, err := c.restore(ctx, engine, math.MaxInt)
	if err != nil {
		return 0, err
	}
	for _, reason := range chosen.refused {
		logger.Warn("checkpoint not used", "reason", reason)
	}
	if chosen.round == 0 && len(chosen.refused) > 0 {
		return 0, &Failure{event.CauseCheckpoint, fmt.Errorf(
			"none of the %d checkpoints in %s can be read. Try: continue the run, which computes the lost rounds again", len(chosen.refused), dir)}
	}
	return chosen.round, nil
}

// RestoreRound is RestoreNewest for the checkpoint after this number of rounds.
func RestoreRound(ctx context.Context, dir string, rounds int, engine Saver, logger *slog.Logger) error {
	c := &checkpoints{dir: dir, logger: logger}
	list, refused := c.list()
	at := slices.IndexFunc(list, func(m manifest) bool { return m.Round == rounds })
	if at < 0 {
		if err := c.undamaged(refused); err != nil {
			return err
		}
		has := "none"
		for i, m := range list {
			if has += fmt.Sprintf(", %d", m.Round); i == 0 {
				has = strconv.Itoa(m.Round)
			}
		}
		err := fmt.Errorf("%s has no checkpoint after %s. It has: %s", dir, units.Plural(rounds, "round"), has)
		return &Failure{event.CauseCheckpoint, fail.Usage(err, "--round with one of them")}
	}
	reason, err := c.bringBack(ctx, engine, list[at])
	if err == nil && reason != "" {
		err = &Failure{event.CauseCheckpoint, fmt.Errorf("the checkpoint after %s can't be used: %s", units.Plural(rounds, "round"), reason)}
	}
	return err
}

// chosen is the state with which a process begins.
type chosen struct {
	round   int      // rounds done, 0: the initial weights
	newest  manifest // manifest of that checkpoint
	refused []string // the newer checkpoints that are not used, and why: "checkpoint of round 50: sha256 differs"
	tried   bool     // the engine refused a checkpoint, and may hold parts of it
}

// restore loads the newest good checkpoint of at most limit rounds. It skips damaged ones, and the caller replays
// the rounds between. A checkpoint of another model or run, or of a newer program, is not damage but a Failure for
// the user. Nor is a failed read: a later process may succeed.
func (c *checkpoints) restore(ctx context.Context, engine Saver, limit int) (chosen, error) {
	var choice chosen
	list, refused := c.list()
	if err := c.undamaged(refused); err != nil {
		return choice, err
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		choice.refused = append(choice.refused, fmt.Sprintf("checkpoint %s: %v", name, refused[name]))
	}
	for _, m := range slices.Backward(list) {
		if difference := m.owner.foreign(c.owner); difference != "" {
			return choice, c.foreign(m.File, difference)
		}
		if m.Round > limit {
			choice.refused = append(choice.refused, fmt.Sprintf(
				"checkpoint of round %d: round %d is neither in the database nor complete in the journal", m.Round, limit))
			continue
		}
		reason, err := c.bringBack(ctx, engine, m)
		if err != nil {
			return choice, err
		}
		if reason == "" {
			choice.round, choice.newest = m.Round, m
			return choice, nil
		}
		choice.tried = true
		choice.refused = append(choice.refused, fmt.Sprintf("checkpoint of round %d: %s", m.Round, reason))
	}
	return choice, nil
}

// undamaged returns an error if one of the refused manifests may be intact: reading it failed, or a newer program
// wrote it.
func (c *checkpoints) undamaged(refused map[string]error) error {
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		switch err := refused[name]; {
		case errors.Is(err, errNewerManifest):
			return c.foreign(name, err.Error())
		case unreadable(err):
			return fmt.Errorf("checkpoints: %w", err)
		}
	}
	return nil
}

// bringBack restores one checkpoint. reason is empty, or says why the checkpoint cannot be used.
func (c *checkpoints) bringBack(ctx context.Context, engine Saver, m manifest) (reason string, err error) {
	path := filepath.Join(c.dir, m.File)
	result, err := engine.Restore(ctx, policy.RestoreParams{Path: path, SHA256: m.SHA256})
	var refused *policy.Error
	switch {
	case errors.As(err, &refused) && refused.Kind == policy.KindCheckpoint:
		message := strings.TrimPrefix(refused.Message, path+": ")
		if strings.Contains(message, "another model") {
			if err := checkSum(path, m.SHA256); err == nil {
				return "", c.foreign(m.File, message)
			} else if unreadable(err) {
				return "", fmt.Errorf("checkpoint of round %d: %w", m.Round, err)
			}
		}
		return message, nil
	case err != nil:
		return "", fmt.Errorf("restore checkpoint of round %d: %w", m.Round, err)
	case result.Metadata["round"] != strconv.Itoa(m.Round):
		return "its file belongs to round " + result.Metadata["round"], nil
	}
	return "", nil
}

func (c *checkpoints) foreign(name, difference string) error {
	return &Failure{event.CauseConfig, fmt.Errorf(
		"checkpoint %s: %s. Try: continue the run with its original settings, or begin a new one with --fresh", filepath.Join(c.dir, name), difference)}
}

// CheckFiles checks the files of the checkpoints in a node's folder against the checksums of their manifests. It
// returns what is damaged or cannot be read, nil if nothing is. A folder without checkpoints is not damaged. The node
// must not run.
func CheckFiles(dir string) (damaged []string) {
	c := &checkpoints{dir: dir}
	list, refused := c.list()
	for _, m := range list {
		if m.SHA256 != "" {
			refused[m.File] = checkSum(filepath.Join(dir, m.File), m.SHA256)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		switch err := refused[name]; {
		case unreadable(err):
			damaged = append(damaged, fmt.Sprintf("%s cannot be read, but may be intact: %v", name, err))
		case err != nil:
			damaged = append(damaged, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return damaged
}

// checkSum returns nil if a file has the checksum of its manifest: then a mismatch inside the file is not damage. The
// file may be intact if the error is an unreadable one.
func checkSum(path, sum string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != sum {
		return errors.New("its sha256 differs from its manifest's")
	}
	return nil
}

// dropAbove removes the damaged manifests, and the checkpoints after more than this number of rounds.
func (c *checkpoints) dropAbove(round int) {
	list, refused := c.list()
	for name, err := range refused {
		if !unreadable(err) {
			_ = os.Remove(filepath.Join(c.dir, name))
		}
	}
	for _, m := range list {
		if m.Round > round {
			c.remove(m.Round)
		}
	}
}
