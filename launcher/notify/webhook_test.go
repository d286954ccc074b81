package notify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

// hurried returns a webhook without pauses.
func hurried(t *testing.T, address string) *webhook {
	t.Helper()
	w, err := parseWebhook(address)
	require.NoError(t, err)
	w.pause = time.Millisecond
	return w
}

func TestAWebhookGetsTheDocumentOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			string(body) != `{"state":"done"}` || r.URL.RequestURI() != "/hook?token=secret" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	require.NoError(t, hurried(t, server.URL+"/hook?token=secret").post(t.Context(), []byte(`{"state":"done"}`)))
	require.EqualValues(t, 1, calls.Load())
}

func TestAWebhookThatFailsForAWhileIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name    string
		answers []int // the last is repeated
		calls   int32
		err     string
	}{
		{"mends itself", []int{503, 429, 204}, 3, ""},
		{"stays ill", []int{500}, 3, "it answered 500 Internal Server Error"},
		{"refuses", []int{403}, 1, "it answered 403 Forbidden"},
		{"is gone", []int{404}, 1, "it answered 404 Not Found"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(calls.Add(1))
				w.WriteHeader(x.answers[min(n, len(x.answers))-1])
			}))
			defer server.Close()
			err := hurried(t, server.URL).post(t.Context(), []byte(`{}`))
			if x.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, x.err)
			}
			require.Equal(t, x.calls, calls.Load())
		})
	}
}

func TestAWebhookThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		<-release
	}))
	defer server.Close()
	defer close(release)
	w := hurried(t, server.URL)
	w.limit = 50 * time.Millisecond
	require.EqualError(t, w.post(t.Context(), []byte(`{}`)), "no answer within 50ms")
	require.EqualValues(t, 3, calls.Load())
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("stopped"))
	require.EqualError(t, w.post(stopped, []byte(`{}`)), "stopped")
}

func TestAWebhookStaysAPostToItsHost(t *testing.T) {
	t.Parallel()
	var reached, posted atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached.Add(1) }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/here", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/here", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && string(body) == `{"a":1}` {
			posted.Add(1)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/there", "/get", "/loop"} {
		require.ErrorIs(t, hurried(t, server.URL+path).post(t.Context(), []byte(`{"a":1}`)), errRedirect, path)
	}
	require.Zero(t, reached.Load(), "the summary went to another host")
	require.Zero(t, posted.Load())
	require.NoError(t, hurried(t, server.URL+"/moved").post(t.Context(), []byte(`{"a":1}`)))
	require.EqualValues(t, 1, posted.Load())
}

func TestAWebhooksSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close() // refuses connections from now on
	w := hurried(t, strings.Replace(address, "http://", "http://me:s3cret@", 1)+"/s3cret?key=s3cret")
	err := w.post(t.Context(), []byte(`{}`))
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "s3cret")
	require.Equal(t, address, w.host())
	for _, bad := range []string{"s3cret", "ftp://s3cret.example", "http://", "https:s3cret", "http://[::1/s3cret", "http://:80/s3cret",
		"file:///s3cret",
		"/s3cret"} {
		_, err := parseWebhook(bad)
		var mistake *configs.Error
		require.ErrorAs(t, err, &mistake, bad)
		require.NotContains(t, err.Error(), "s3cret")
		require.Equal(t, "--webhook", mistake.Source)
	}
}

func FuzzParseWebhook(f *testing.F) {
	f.Add("https://example.org/hook")
	f.Add("http://[::1]:80")
	f.Add("gopher://x")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWebhook(text)
		if err != nil {
			return
		}
		again, err := url.Parse(w.host())
		if err != nil || again.Host != w.url.Host || again.User != nil || again.Path != "" {
			t.Errorf("%q shows as %q", text, w.host())
		}
	})
}
