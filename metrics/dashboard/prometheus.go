package dashboard

import (
	"errors"
	"net/http"
	"sync"

	"github.com/sapo-swarm/swarm/metrics/export/prometheus"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// scrapes answers Prometheus with the database's current reader.
type scrapes struct {
	mu      sync.Mutex
	reader  *store.Reader // reader of handler
	handler http.Handler
}

func (s *Server) prometheus(w http.ResponseWriter, r *http.Request) {
	reader, err := s.db.open(r.Context())
	if errors.Is(err, store.ErrNoDatabase) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8") // no data yet is not a failure
		return
	}
	if err != nil {
		s.refuse(w, r, explain(err))
		return
	}
	s.scrapes.mu.Lock()
	if s.scrapes.reader != reader {
		s.scrapes.reader, s.scrapes.handler = reader, prometheus.Handler(reader, s.options.Alive)
	}
	handler := s.scrapes.handler
	s.scrapes.mu.Unlock()
	handler.ServeHTTP(w, r)
}
