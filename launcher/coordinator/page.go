package coordinator

import (
	"context"
	"log/slog"
	"sync"
)

// pageMemory is the memory in bytes that a page may use in addition to memoryLimit, for the series of some long
// runs.
const pageMemory = 96 << 20

// servePage serves the page until the returned function is called. A failure of the page does not end the run.
func (c *Run) servePage(logger *slog.Logger) (stop func()) {
	if c.page == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := c.page.Serve(ctx); err != nil {
			logger.Error("the dashboard has ended; the run continues", "error", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}
}

// tellPage prints the page's address.
func (c *Run) tellPage() {
	if c.page != nil {
		c.page.Tell(c.h.Stdout, c.h.Stderr)
	}
}
