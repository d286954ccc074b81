package coordinator

import (
	"context"
	"log/slog"
	"sync"
)

// pageMemory is what a page may take of this process's memory beside memoryLimit: the series of some long runs.
const pageMemory = 96 << 20

// servePage answers the page's requests until the function it returns is called. A page that fails is no reason to end
// a run.
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

// tellPage says where the page is.
func (c *Run) tellPage() {
	if c.page != nil {
		c.page.Tell(c.h.Stdout, c.h.Stderr)
	}
}
