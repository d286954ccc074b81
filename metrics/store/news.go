package store

import (
	"errors"
	"log/slog"
)

// LogNews returns an Options.Warn that writes to a logger.
func LogNews(logger *slog.Logger) func(error) {
	return func(err error) {
		var well *Recovered
		if errors.As(err, &well) {
			logger.Info("database", "news", err)
			return
		}
		logger.Warn("database", "problem", err)
	}
}
