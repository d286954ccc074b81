package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer of the hub that a retry would not change.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// busy is an answer after which a retry may succeed, not before wait.
type busy struct {
	status int
	wait   time.Duration
}

func (b *busy) Error() string {
	return fmt.Sprintf("it answers %d %s", b.status, http.StatusText(b.status))
}

// judge turns a failed response into an error. The hub explains the failure in X-Error-Code. The status alone does
// not distinguish a missing model from one that needs a token: both are 401. what names the model (with @revision
// if the user gave one), or one of its files.
func (c *Client) judge(response *http.Response, id, what string) error {
	status := response.StatusCode
	code := response.Header.Get("X-Error-Code")
	page, tokens := c.Endpoint+"/"+id, c.Endpoint+"/settings/tokens"
	refuse := func(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return &busy{status, retryAfter(response.Header)}
	case code == "GatedRepo":
		return refuse("model %s is gated: its owners grant access on request. Try: request access at %s, then HF_TOKEN=… swarm model pull %s", id, page, id)
	case code == "RevisionNotFound":
		return refuse("the hub has no %s. Try: a branch, tag or commit from %s/tree/main", what, page)
	case code == "EntryNotFound":
		return refuse("the hub has no %s", what)
	case status == http.StatusUnauthorized && c.Token != "" && code == "":
		return refuse("%s rejects the token (HF_TOKEN, or the file of hf auth login). Try: a new token from %s", c.Host(), tokens)
	case status == http.StatusForbidden:
		return refuse("%s denies access to %s with this token. Try: a token with read access, from %s", c.Host(), what, tokens)
	case status == http.StatusNotFound, status == http.StatusUnauthorized, code == "RepoNotFound":
		return refuse("%s has no %s, or it is private. Try: the exact name from %s/models, or HF_TOKEN=… for a private model", c.Host(), what, c.Endpoint)
	}
	return refuse("%s answers %s to the request for %s", c.Host(), response.Status, what)
}

// maxWait bounds a server's Retry-After.
const maxWait = time.Minute

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// attempts is the number of tries in a row without progress before a download fails.
const attempts = 5

// explain is the error for the user after the last attempt.
func (c *Client) explain(err error, id string, kept bool) error {
	var no *refusal
	if errors.As(err, &no) {
		return err
	}
	try := "Try: check the connection and HTTPS_PROXY, or set HF_ENDPOINT to a mirror"
	if kept {
		try = fmt.Sprintf("Try: swarm model pull %s again: it continues where this one stopped", id)
	}
	return fmt.Errorf("download %s from %s: %w. %s", id, c.Host(), err, try)
}

// delay is the wait before the next attempt, after failed failures in a row.
func delay(err error, failed int) time.Duration {
	wait := time.Second << min(failed-1, 4)
	var b *busy
	if errors.As(err, &b) {
		wait = max(wait, b.wait)
	}
	return wait
}
