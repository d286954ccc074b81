package dashboard

import (
	"container/list"
	"encoding/json"
	"sync"
)

// cache keeps documents that stay valid until their run changes. It evicts the least recently used ones.
type cache struct {
	mu    sync.Mutex
	order *list.List // of *answer, most recently used first
	byKey map[string]*list.Element
	bytes int
}

// answer is a document that is valid for a stamp.
type answer struct {
	key, stamp string
	body       json.RawMessage
}

// cacheBytes bounds the size of a cache.
const cacheBytes = 32 << 20

func newCache() *cache { return &cache{order: list.New(), byKey: map[string]*list.Element{}} }

// get returns the document of a key if it has that stamp.
func (c *cache) get(key, stamp string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil || e.Value.(*answer).stamp != stamp {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*answer).body, true
}

func (c *cache) put(key, stamp string, body json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
	c.byKey[key] = c.order.PushFront(&answer{key, stamp, body})
	c.bytes += c.order.Front().Value.(*answer).size()
	for c.bytes > cacheBytes && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	a := c.order.Remove(e).(*answer)
	delete(c.byKey, a.key)
	c.bytes -= a.size()
}

// size includes key and stamp, because the stamp of a comparison names every run.
func (a *answer) size() int { return len(a.key) + len(a.stamp) + len(a.body) }
