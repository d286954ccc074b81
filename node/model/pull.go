package model

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/model/hub"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// HubName returns the hub's name and revision for NAME[@REVISION], with a preset's name or the hub's.
func HubName(text string) (id, revision string, err error) {
	name, at, _ := strings.Cut(text, "@")
	if m, err := configs.LoadModel(name); err == nil {
		if m.Weights == Embedded {
			return "", "", fail.Usage(fmt.Errorf("model %s is part of the program: there is nothing to download", m.Name), "swarm up --model "+m.Name)
		}
		if text = m.Weights; at != "" {
			text += "@" + at
		}
	}
	if id, revision, err = hub.ParseName(text); err != nil {
		return "", "", fail.Usage(err, "swarm model list")
	}
	return id, revision, nil
}

// Pulled is a downloaded model.
type Pulled struct {
	hub.Result
	Shape configs.Shape `json:"shape"`
}

// Pull downloads a model and checks that the engine can load it. It checks architecture, tokenizer and chat template
// before it downloads the weights, and the weights afterwards.
func Pull(ctx context.Context, stderr io.Writer, id, revision string) (Pulled, error) {
	client, err := hub.FromEnvironment(os.Getenv)
	if err != nil {
		return Pulled{}, fail.Usage(err, "swarm model pull --help")
	}
	progress := screen.NewStatusLine(stderr, 10*time.Second)
	client.Progress = func(now hub.Progress) { progress.Say(pullText(id, now)) }
	var text []byte
	client.Ready = func(folder string) error { return checkTokenizer(id, folder, text) }
	result, err := client.Pull(ctx, id, revision, func(config []byte) error {
		text = config
		_, err := configs.ParseModel(id, id, config)
		return err
	})
	progress.End()
	if err != nil {
		return Pulled{}, err
	}
	shape, err := Inspect(result.Path)
	if err != nil {
		return Pulled{}, fail.Hint(fmt.Errorf("model %s: %w", id, err), "swarm model list")
	}
	slices.Sort(result.Files)
	return Pulled{result, shape}, nil
}

// checkTokenizer refuses a model with an unknown tokenizer or chat template. folder holds the model's small files.
func checkTokenizer(id, folder string, config []byte) error {
	m, err := configs.ParseModel(id, folder, config)
	if err != nil {
		return err
	}
	if _, err := tokenizer.Open(m.Tokenizer, folder); err != nil {
		return fail.Hint(&configs.Error{Key: "model", Value: id, Allowed: err.Error(), Source: tokenizer.File}, "swarm model list")
	}
	return nil
}

// Print shows the downloaded model and the command to train it.
func (p Pulled) Print(w io.Writer, id, revision string) {
	fmt.Fprintf(w, "%s: %s, %s parameters, %s (%s downloaded)\n%s\n", id, p.Shape.Family(), units.Group(p.Shape.Parameters),
		units.Bytes(p.Bytes), units.Bytes(p.Downloaded), p.Path)
	next := p.Path
	if m, err := configs.LoadModel(id); err == nil && revision == hub.Main {
		next = m.Name
	}
	fmt.Fprintf(w, "Next: swarm up --model %s\n", next)
}

// pullText describes the progress of a download.
func pullText(id string, now hub.Progress) string {
	if now.Waiting {
		return fmt.Sprintf("%s: waiting for another program that downloads %s", id, now.File)
	}
	line := fmt.Sprintf("%s: %s of %s (%.0f %%)", id, units.Bytes(now.Done), units.Bytes(now.Total), 100*float64(now.Done)/float64(max(now.Total, 1)))
	if now.Rate > 0 && now.Done < now.Total {
		left := units.Seconds(float64(now.Total-now.Done) / now.Rate)
		line += fmt.Sprintf(", %s/s, left %s", units.Bytes(int64(now.Rate)), left.Round(time.Second))
	}
	return line
}
