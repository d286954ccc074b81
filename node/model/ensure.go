package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// Ensure calls Resolve, and can download a model that is not in the Hugging Face cache. With yes it downloads
// without asking. On a terminal it asks first. Otherwise it returns the error of Resolve.
func Ensure(ctx context.Context, m configs.Model, home string, stdin io.Reader, stderr io.Writer, yes bool) (string, error) {
	dir, err := Resolve(m, home)
	var missing *MissingError
	if !errors.As(err, &missing) {
		return dir, err
	}
	client, envErr := hub.FromEnvironment(os.Getenv)
	if envErr != nil || client.Offline != "" {
		return "", err
	}
	if !yes {
		if !screen.IsTerminal(stdin) || !screen.IsTerminal(stderr) {
			return "", err
		}
		size := ""
		if m.DownloadBytes > 0 {
			size = " (" + units.Bytes(m.DownloadBytes) + ")"
		}
		agreed, askErr := screen.Ask(ctx, stdin, stderr, fmt.Sprintf("Download %s%s from %s? [y/N] ", missing.ID, size, client.Host()))
		if askErr != nil {
			return "", askErr
		}
		if !agreed {
			return "", err
		}
	}
	if _, err := Pull(ctx, stderr, missing.ID, hub.Main); err != nil {
		return "", err
	}
	return Resolve(m, home)
}
