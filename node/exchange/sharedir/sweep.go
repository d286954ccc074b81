package sharedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// Sweep deletes a run's rollouts of rounds before the given one. It deletes whole blocks, so some earlier rounds may
// stay. A later call continues an interrupted one and deletes what the sync program restored. It deletes only swarm's
// files.
func Sweep(ctx context.Context, dir, run string, before int) error {
	t := baseOf(dir)
	blocks, err := listBlocks(t, run)
	if err != nil {
		return fmt.Errorf("delete old rollouts: %w", explain(dir, err))
	}
	for _, block := range blocks {
		if block+blockRounds > before {
			break
		}
		if err := sweepBlock(ctx, t, run, block); err != nil {
			return fmt.Errorf("delete old rollouts: %w", explain(dir, err))
		}
	}
	return nil
}

func sweepBlock(ctx context.Context, t *tree, run string, block int) error {
	folder := blockPath(run, block)
	names, err := t.list(folder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ours := parseRollout(name); !ours {
			continue
		}
		if err := t.remove(path.Join(folder, name)); err != nil {
			return err
		}
	}
	if err := t.remove(folder); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}
