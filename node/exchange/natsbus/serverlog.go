package natsbus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// serverLog is the broker's logger. The broker's notices become debug lines, because they are many. The broker reports
// a failed start only by a fatal line, so serverLog keeps the first one.
type serverLog struct {
	logger  *slog.Logger
	trouble func()         // called after some errors
	errors  rate.Sometimes // which of the errors, because anyone who reaches the port can cause them

	mu        sync.Mutex
	firstFail error
}

var _ natsserver.Logger = (*serverLog)(nil)

func (l *serverLog) Noticef(format string, args ...any) { l.log(slog.LevelDebug, format, args) }
func (l *serverLog) Debugf(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l *serverLog) Tracef(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }

// Errorf passes on that there was an error, but not its text: a client chooses part of it, for example the name of an
// unknown user.
func (l *serverLog) Errorf(format string, args ...any) {
	l.errors.Do(func() {
		l.log(slog.LevelWarn, format, args)
		l.trouble()
	})
}

// Warnf logs at debug level. The broker repairs what it warns about, for example when it recovers its files after a
// kill. What it can't repair, it reports as an error.
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
