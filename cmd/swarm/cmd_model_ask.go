package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// ensureModel is model.Resolve, but offers to download a model that isn't in the Hugging Face cache: without a question when yes says
// that the user has agreed, after a question on a terminal, and not at all elsewhere.
func ensureModel(ctx context.Context, g *globals, m configs.Model, yes bool) (string, error) {
	dir, err := model.Resolve(m, string(g.home))
	var missing *model.MissingError
	if !errors.As(err, &missing) {
		return dir, err
	}
	client, envErr := hub.FromEnvironment(os.Getenv)
	if envErr != nil || client.Offline != "" {
		return "", err
	}
	if !yes {
		if !screen.IsTerminal(g.stdin) || !screen.IsTerminal(g.stderr) {
			return "", err
		}
		size := ""
		if m.DownloadBytes > 0 {
			size = " (" + units.Bytes(m.DownloadBytes) + ")"
		}
		agreed, askErr := ask(ctx, g.stdin, g.stderr, fmt.Sprintf("Download %s%s from %s? [y/N] ", missing.ID, size, client.Host()))
		if askErr != nil {
			return "", askErr
		}
		if !agreed {
			return "", err
		}
	}
	if _, err := pullModel(ctx, g, missing.ID, hub.Main); err != nil {
		return "", err
	}
	return model.Resolve(m, string(g.home))
}

// ask puts a question whose answer is no unless it is yes. When ctx ends first the reading is left behind: nothing can interrupt it,
// and the program is about to end.
func ask(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // an end of input is a no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, context.Cause(ctx)
	}
}

// pullText says how far a download is.
func pullText(id string, now hub.Progress) string {
	if now.Waiting {
		return fmt.Sprintf("%s: waits for another program that downloads %s", id, now.File)
	}
	line := fmt.Sprintf("%s: %s of %s (%.0f %%)", id, units.Bytes(now.Done), units.Bytes(now.Total), 100*float64(now.Done)/float64(max(now.Total, 1)))
	if now.Rate > 0 && now.Done < now.Total {
		left := units.Seconds(float64(now.Total-now.Done) / now.Rate)
		line += fmt.Sprintf(", %s/s, left %s", units.Bytes(int64(now.Rate)), left.Round(time.Second))
	}
	return line
}

// ensureModels brings the weights of all models into place, and returns their folders by the models' keys.
func ensureModels(ctx context.Context, g *globals, p plan.Planned, yes bool) (map[string]string, error) {
	dirs := map[string]string{}
	for _, m := range p.All() {
		dir, err := ensureModel(ctx, g, m, yes)
		if err != nil {
			return nil, err
		}
		dirs[m.Key()] = dir
	}
	return dirs, nil
}
