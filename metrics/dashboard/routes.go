package dashboard

import (
	"encoding/json"
	"net/http"
)

// routes registers all handlers.
func (s *Server) routes() (http.Handler, error) {
	all, err := assets()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.static(all))
	mux.Handle("/api/runs", s.document(s.getRuns))
	mux.Handle("/api/compare", s.document(s.getCompare))
	mux.Handle("/api/studies", s.document(s.getStudies))
	mux.Handle("/api/curves", s.document(s.getCurves))
	mux.Handle("/api/metrics", s.document(s.getMetrics))
	mux.Handle("/api/runs/{run}", s.document(s.getRun))
	mux.Handle("/api/runs/{run}/curve", s.document(s.getCurve))
	mux.Handle("/api/runs/{run}/tasks", s.document(s.getTasks))
	mux.Handle("/api/runs/{run}/evaluations", s.document(s.getEvaluations))
	mux.Handle("/api/runs/{run}/peers", s.document(s.getPeers))
	mux.Handle("/api/runs/{run}/workers", s.document(s.getWorkers))
	mux.Handle("/api/runs/{run}/memory", s.document(s.getMemory))
	mux.Handle("/api/runs/{run}/events", s.document(s.getEvents))
	mux.Handle("/api/runs/{run}/logs", s.document(s.getLogs))
	mux.Handle("/api/runs/{run}/rollouts", s.document(s.getRollouts))
	mux.HandleFunc("/api/stream", s.stream)
	mux.HandleFunc("/metrics", s.prometheus)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(map[string]any{"ok": true, "version": s.options.Version}) // cannot fail
		reply(w, r, body)
	})
	return s.guard(mux), nil
}
