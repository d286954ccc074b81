package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// problem is an answer other than 200: one line for people.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func missing(format string, args ...any) error {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// explain turns an error into an answer.
func explain(err error) *problem {
	var known *problem
	var mendable interface{ Remedy() string } // a store.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, store.ErrNoDatabase):
		return &problem{http.StatusNotFound, "nothing has run yet. Try: swarm up --config 4loc4ext"}
	case errors.Is(err, store.ErrNotFound):
		return &problem{http.StatusNotFound, oneLine(err.Error())}
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{http.StatusServiceUnavailable, fmt.Sprintf("no answer within %s. Try: again when the machine is less busy", requestTimeout)}
	case errors.As(err, &mendable):
		return &problem{http.StatusServiceUnavailable, oneLine(err.Error()) + ". Try: " + mendable.Remedy()}
	}
	return &problem{http.StatusInternalServerError, oneLine(err.Error())}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// document answers with what make returns, as JSON; a second request for the same gets 304.
func (s *Server) document(make func(context.Context, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		var body []byte
		err := s.admit(ctx)
		if err == nil {
			body, err = s.encode(ctx, r, make)
		}
		if err != nil {
			if r.Context().Err() != nil {
				return // nobody waits for it
			}
			s.refuse(w, r, explain(err))
			return
		}
		reply(w, r, body)
	})
}

// admit waits until there is room for one more request.
func (s *Server) admit(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encode makes an admitted request's answer, and gives its room back whatever happens.
func (s *Server) encode(ctx context.Context, r *http.Request, make func(context.Context, *http.Request) (any, error)) ([]byte, error) {
	defer func() { <-s.busy }()
	value, err := make(ctx, r)
	if err != nil {
		return nil, err
	}
	if ready, ok := value.(json.RawMessage); ok {
		return ready, nil
	}
	return json.Marshal(value) // <, > and & escaped: it is no markup even to whom takes it for some
}

func reply(w http.ResponseWriter, r *http.Request, body []byte) {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body) // whoever has gone has gone
}

// refuse answers with one line.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	if p.code >= http.StatusInternalServerError {
		s.options.Logger.Warn("dashboard request failed", "path", r.URL.Path, "error", p.text)
	}
	body, _ := json.Marshal(map[string]string{"error": p.text}) // strings always can
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.code)
	_, _ = w.Write(body)
}
