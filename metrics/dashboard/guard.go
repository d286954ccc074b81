package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// policy restricts what a browser may do with a page of this server: load content only from this server, and never show
// the page in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// cookieAge is the lifetime of the token's cookie, in seconds.
const cookieAge = 30 * 24 * 3600

// guard admits authorized requests, and sets security headers.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			s.refuse(w, r, &problem{http.StatusMethodNotAllowed, "method " + clip(r.Method) + ": this server is read-only and allows only GET and HEAD"})
			return
		}
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		if foreign(r) {
			s.refuse(w, r, &problem{http.StatusForbidden, "the request came from another site's page. Try: open the address of this dashboard directly"})
			return
		}
		if s.options.Token == "" {
			// A page of another site could make its name resolve to this machine and read everything. The Host header
			// reveals that name.
			if !ownHost(r.Host) {
				text := "host " + clip(r.Host) + " is not this server. Try: its address or localhost, or start it with --token"
				s.refuse(w, r, &problem{http.StatusForbidden, text})
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		s.authorise(w, r, next)
	})
}

// foreign reports whether a browser sends the request for a page of another origin: another site, or another port of
// this host. Navigating to the page through a link is allowed from any origin. Clients other than browsers send no such
// headers.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin, err := url.Parse(r.Header.Get("Origin"))
		return r.Header.Get("Origin") != "" && (err != nil || !strings.EqualFold(origin.Host, r.Host))
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 80)], "") }

// ownHost reports whether a Host header is an IP address or localhost, and not a name that others control.
func ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return net.ParseIP(name) != nil || strings.EqualFold(name, "localhost")
}

// authorise checks the token: in Authorization: Bearer, in the cookie of an earlier visit, or once as ?token= of the
// page. The latter sets the cookie and forwards to the address without the token.
func (s *Server) authorise(w http.ResponseWriter, r *http.Request, next http.Handler) {
	cookie := "swarm_" + s.derive("name")[:16] // servers on other ports of a host share its cookies
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, s.options.Token) {
		next.ServeHTTP(w, r)
		return
	}
	query, _ := url.ParseQuery(r.URL.RawQuery)
	if query.Has("token") && same(query.Get("token"), s.options.Token) {
		http.SetCookie(w, &http.Cookie{
			Name: cookie, Value: s.derive("value"), Path: "/", MaxAge: cookieAge, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
		query.Del("token")
		// Not a redirect: the browser would omit the cookie after a redirect that began at another site.
		clean := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Refresh", "0; url="+clean.RequestURI())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "Opening the dashboard.\n")
		return
	}
	if sent, err := r.Cookie(cookie); err == nil && same(sent.Value, s.derive("value")) {
		next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="swarm"`)
	s.refuse(w, r, &problem{http.StatusUnauthorized, "this dashboard needs its token. Try: the address that swarm dashboard printed, with ?token="})
}

// derive computes a value from the token that does not reveal it.
func (s *Server) derive(what string) string {
	sum := sha256.Sum256([]byte("swarm dashboard cookie " + what + "\x00" + s.options.Token))
	return hex.EncodeToString(sum[:])
}

// same compares two secrets in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
