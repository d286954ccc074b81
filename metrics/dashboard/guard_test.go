package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const token = "correct-horse-battery"

func TestOnlyReadingIsAllowed(t *testing.T) {
	s := newSwarm(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "BREW"} {
		r := httptest.NewRequest(method, "/api/runs", nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
}

// A page whose name resolves to this machine (DNS rebinding) must not read data of the server.
func TestHostMustBeAnAddressOrLocalhost(t *testing.T) {
	s := newSwarm(t)
	for host, code := range map[string]int{
		"127.0.0.1:8420": 200, "localhost:1": 200, "LOCALHOST": 200, "[::1]:8420": 200, "[::1]": 200, "192.168.1.7:80": 200,
		"evil.example": 403, "evil.example:8420": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "": 403, "127.0.0.1@evil": 403,
	} {
		require.Equal(t, code, s.get("/api/runs", "Host", host).Code, host)
	}
}

// A page of another site, or of another program on this machine, can make a browser send requests here with its cookie.
// It must get no response, and in particular no stream. Following a link to the page is allowed.
func TestOtherSitesGetNoAnswer(t *testing.T) {
	for name, s := range map[string]*swarm{"without a token": newSwarm(t), "with one": newSwarm(t, func(o *Options) { o.Token = token })} {
		var cookie string
		if s.server.options.Token != "" {
			c := s.get("/?token=" + token).Result().Cookies()[0]
			cookie = c.Name + "=" + c.Value
		}
		for _, target := range []string{"/api/runs", "/api/stream", "/metrics", "/charts/charts.js"} {
			for _, site := range []string{"cross-site", "same-site"} {
				w := s.get(target, "Cookie", cookie, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "no-cors")
				require.Equal(t, http.StatusForbidden, w.Code, "%s: %s %s", name, target, site)
				w = s.get(target, "Cookie", cookie, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
				require.Equal(t, http.StatusForbidden, w.Code, "%s: a window of %s", name, target)
			}
			w := s.get(target, "Cookie", cookie, "Origin", "http://evil.example")
			require.Equal(t, http.StatusForbidden, w.Code, "%s: %s of a browser that tells its page's origin alone", name, target)
		}
		for _, site := range []string{"same-origin", "none"} {
			require.Equal(t, http.StatusOK, s.get("/charts/charts.js", "Cookie", cookie, "Sec-Fetch-Site", site).Code, name)
		}
		require.Equal(t, http.StatusOK, s.get("/charts/charts.js", "Cookie", cookie, "Host", "127.0.0.1:8420", "Origin", "http://127.0.0.1:8420").Code)
		link := []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
		require.Equal(t, http.StatusOK, s.get("/?token="+s.server.options.Token, link...).Code, name)
		require.Equal(t, http.StatusForbidden, s.get("/", append(link[:len(link)-1:len(link)-1], "iframe")...).Code, name)
	}
}

func TestBrowsersAreTold(t *testing.T) {
	s := newSwarm(t)
	for _, target := range []string{"/", "/api/runs", "/nothing", "/api/runs/x"} {
		h := s.get(target).Header()
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
}

func TestTokenIsAskedFor(t *testing.T) {
	s := newSwarm(t, func(o *Options) { o.Token = token })
	for _, target := range []string{"/", "/api/runs", "/api/stream", "/metrics", "/charts/charts.js", "/?token=wrong", "/?token="} {
		w := s.get(target)
		require.Equal(t, http.StatusUnauthorized, w.Code, target)
		require.Contains(t, w.Body.String(), "needs its token")
		require.Empty(t, w.Result().Cookies())
	}
	require.Equal(t, http.StatusUnauthorized, s.get("/", "Authorization", "Bearer "+token[1:]).Code)
	require.Equal(t, http.StatusUnauthorized, s.get("/", "Authorization", token).Code)
	require.Equal(t, http.StatusOK, s.get("/api/runs", "Authorization", "Bearer "+token).Code)
	named := s.get("/api/runs", "Authorization", "Bearer "+token, "Host", "swarm.example:443")
	require.Equal(t, http.StatusOK, named.Code, "a token vouches for the name")
	require.Equal(t, http.StatusOK, s.get("/healthz").Code)
}

func TestTokenInTheAddressBecomesACookie(t *testing.T) {
	s := newSwarm(t, func(o *Options) { o.Token = token })
	w := s.get("/?x=1&token=" + token)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "0; url=/?x=1", w.Header().Get("Refresh"), "the address without it")
	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	require.True(t, cookies[0].HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookies[0].SameSite)
	require.False(t, strings.Contains(cookies[0].Value, token))
	require.Equal(t, http.StatusOK, s.get("/api/runs", "Cookie", cookies[0].Name+"="+cookies[0].Value).Code)
	require.Equal(t, http.StatusUnauthorized, s.get("/api/runs", "Cookie", cookies[0].Name+"="+token).Code)

	other := newSwarm(t, func(o *Options) { o.Token = token + "2" })
	require.Equal(t, http.StatusUnauthorized, other.get("/api/runs", "Cookie", cookies[0].Name+"="+cookies[0].Value).Code)
	require.Equal(t, "0; url=/evil.example/", s.get("//evil.example/?token="+token).Header().Get("Refresh"), "leads nowhere else")
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "path")
	_, err = New(Options{Path: "x"})
	require.ErrorContains(t, err, "coordinators")
}
