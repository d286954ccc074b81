package natsbus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// serverLog is the broker's logger. The broker is chatty about itself, so its notices are debug lines; and it reports
// a failed start only by a fatal line, which is kept.
type serverLog struct {
	logger  *slog.Logger
	trouble func(reason string) // hears of every error

	mu        sync.Mutex
	firstFail error
}

var _ natsserver.Logger = (*serverLog)(nil)

func (l *serverLog) Noticef(format string, args ...any) { l.log(slog.LevelDebug, format, args) }
func (l *serverLog) Debugf(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l *serverLog) Tracef(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }

func (l *serverLog) Errorf(format string, args ...any) {
	l.log(slog.LevelWarn, format, args)
	l.trouble(fmt.Sprintf(format, args...))
}

// Warnf is for a debugger: what the broker warns of, recovering its files after a kill for one, it mends; what it
// can't, is an error.
func (l *serverLog) Warnf(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

func (l *serverLog) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.firstFail == nil {
		l.firstFail = fmt.Errorf(format, args...)
		if strings.Contains(format, "start JetStream") {
			l.firstFail = fmt.Errorf("%w: %w", errStore, l.firstFail)
		}
	}
}

// fatal returns the first fatal line as an error.
func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firstFail
}

func (l *serverLog) log(level slog.Level, format string, args []any) {
	l.logger.Log(context.Background(), level, "message bus", "detail", fmt.Sprintf(format, args...))
}
