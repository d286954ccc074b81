package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
)

// webhook posts a document to a user's URL. The URL may hold secrets, so the program shows only its scheme and
// host.
type webhook struct {
	url   *url.URL
	tries int
	pause time.Duration // before the second try; it triples for each further try
	limit time.Duration // for one try
	agent string        // User-Agent of the request
}

// parseWebhook accepts only http and https URLs. Its error does not contain the URL.
func parseWebhook(text string) (*webhook, error) {
	refuse := &configs.Error{Problem: "bad webhook", Allowed: "an http or https URL such as https://example.org/hook", Source: "--webhook"}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return nil, refuse
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		refuse.Problem = fmt.Sprintf("bad webhook: its scheme is %.20q", u.Scheme)
		return nil, refuse
	}
	return &webhook{url: u, tries: 3, pause: time.Second, limit: 10 * time.Second}, nil
}

// host returns the part of the URL that may be shown.
func (w *webhook) host() string { return w.url.Scheme + "://" + w.url.Host }

// statusError is a response with a status other than 2xx.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("it answered %d %s", e.code, http.StatusText(e.code)))
}

// passing reports whether another try may succeed.
func (e *statusError) passing() bool {
	return e.code >= 500 || e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout
}

// errRedirect reports a redirect that is not followed.
var errRedirect = errors.New("it redirects to another host, or to another method")

// post sends a JSON document until the server accepts it, at most tries times. It ends with ctx.
func (w *webhook) post(ctx context.Context, document []byte) error {
	pause := w.pause
	for try := 1; ; try++ {
		err := w.postOnce(ctx, document)
		var status *statusError
		if err == nil || try >= w.tries || errors.Is(err, errRedirect) || errors.As(err, &status) && !status.passing() {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause *= 3
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (w *webhook) postOnce(ctx context.Context, document []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.limit, fmt.Errorf("no answer within %s", w.limit))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(document))
	if err != nil {
		return errors.New("the URL is not valid for a request")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", w.agent)
	client := http.Client{CheckRedirect: w.mayFollow}
	answer, err := client.Do(request)
	if err != nil {
		return w.cause(ctx, err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be reused
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return &statusError{answer.StatusCode}
	}
	return nil
}

// mayFollow follows a redirect only if it stays a POST to the same host. No other host may get the summary.
func (w *webhook) mayFollow(next *http.Request, via []*http.Request) error {
	if next.URL.Scheme != w.url.Scheme || next.URL.Host != w.url.Host || next.Method != http.MethodPost || len(via) >= 5 {
		return errRedirect
	}
	return nil
}

// cause returns a client's error without the URL that net/http adds.
func (w *webhook) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var with *url.Error
	if errors.As(err, &with) {
		err = with.Err
	}
	return err
}
