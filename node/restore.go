package node

import (
	"context"
	"log/slog"
)

// RestoreNewest brings the newest good checkpoint of a node's folder into an engine that has the node's model loaded, and returns how
// many rounds it holds: 0 where the folder has none. It may read the folder of a node that runs.
func RestoreNewest(ctx context.Context, dir string, engine Saver, logger *slog.Logger) (rounds int, err error) {
	return checkpoints{dir: dir, logger: logger}.restore(ctx, engine)
}
