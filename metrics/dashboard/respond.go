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

// problem is an error response: a status code and a line of text.
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

// explain converts an error to a response.
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

// document responds with the result of make as JSON. An unchanged document gets status 304.
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
				return // the client has disconnected
			}
			s.refuse(w, r, explain(err))
			return
		}
		reply(w, r, body)
	})
}

// admit waits for a free slot for the request.
func (s *Server) admit(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encode creates the response of an admitted request, and always releases its slot.
func (s *Server) encode(ctx context.Context, r *http.Request, make func(context.Context, *http.Request) (any, error)) ([]byte, error) {
	defer func() { <-s.busy }()
	value, err := make(ctx, r)
	if err != nil {
		return nil, err
	}
	if ready, ok := value.(json.RawMessage); ok {
		return ready, nil
	}
	return json.Marshal(value) // escapes <, > and &, so that the text is never interpreted as markup
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
	_, _ = w.Write(body) // the client may have disconnected
}

// refuse responds with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	if p.code >= http.StatusInternalServerError {
		s.options.Logger.Warn("dashboard request failed", "path", r.URL.Path, "error", p.text)
	}
	body, _ := json.Marshal(map[string]string{"error": p.text}) // cannot fail for strings
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.code)
	_, _ = w.Write(body)
}
