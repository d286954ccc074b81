package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
)

// defaultEndpoint is the endpoint unless HF_ENDPOINT names a mirror.
const defaultEndpoint = "https://huggingface.co"

// Client downloads from one hub into one cache. FromEnvironment sets the unexported fields. Tests replace them.
type Client struct {
	Endpoint string // without trailing slash
	Token    string // sent to Endpoint only; empty: none
	Offline  string // name of the variable that forbids connections; empty: allowed
	Cache    string
	// Ready sees the snapshot's folder with all files except the weights. An error ends the pull. nil: no check.
	Ready    func(folder string) error
	Progress func(Progress) // called about every second, from the goroutine that called Pull; may be nil

	transport http.RoundTripper
	idle      time.Duration                              // a connection without a byte for this long is closed
	pause     func(context.Context, time.Duration) error // waits between attempts
	free      func(dir string) (int64, error)            // free bytes of the disk
}

// Progress is the progress of a pull.
type Progress struct {
	File    string  // current file
	Done    int64   // bytes of the whole pull, including those already in the cache
	Total   int64   // bytes
	Rate    float64 // bytes a second in this pull
	Waiting bool    // another process is downloading the same file
}

// FromEnvironment makes a client from the variables of huggingface_hub: HF_ENDPOINT, HF_TOKEN (or the file that `hf
// auth login` wrote), HF_HUB_OFFLINE, and those of the cache. The proxy variables are the usual HTTPS_PROXY and
// NO_PROXY.
func FromEnvironment(getenv func(string) string) (*Client, error) {
	endpoint := strings.TrimRight(getenv("HF_ENDPOINT"), "/")
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("bad HF_ENDPOINT %.100q: allowed: an address such as %s", endpoint, defaultEndpoint)
	}
	cache, err := Cache(getenv)
	if err != nil {
		return nil, err
	}
	token, err := token(getenv)
	if err != nil {
		return nil, err
	}
	c := &Client{Endpoint: endpoint, Token: token, Cache: cache, idle: time.Minute, pause: pause, free: freeDisk}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	c.transport = transport
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if isTrue(getenv(name)) {
			c.Offline = name
		}
	}
	return c, nil
}

// token is HF_TOKEN, or the content of the token file.
func token(getenv func(string) string) (string, error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(getenv(name)); token != "" {
			return token, checkToken(token, name)
		}
	}
	if isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return "", nil
	}
	path := getenv("HF_TOKEN_PATH")
	if path == "" {
		dir, err := home(getenv)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, "token")
	}
	text, err := readRef(expand(path, getenv))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(text)
	return token, checkToken(token, path)
}

// checkToken refuses a token that cannot be part of a header.
func checkToken(token, source string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s is not a token: it has spaces or other characters that a token cannot have", source)
	}
	return nil
}

func isTrue(value string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(value))
}

// Host is the endpoint's host name, for messages.
func (c *Client) Host() string {
	if u, err := url.Parse(c.Endpoint); err == nil {
		return u.Host
	}
	return c.Endpoint
}

// RoundTrip adds the token to requests to the endpoint and to no others. The hub redirects to storage elsewhere
// with signed addresses, which need no token. It sends a token only over TLS, except to this machine.
func (c *Client) RoundTrip(request *http.Request) (*http.Response, error) {
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("User-Agent", "swarm")
	u := request.URL
	if c.Token != "" && u.Scheme == endpoint.Scheme && u.Host == endpoint.Host && (u.Scheme == "https" || isLoopback(u.Hostname())) {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return c.transport.RoundTrip(request)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// client returns an HTTP client that follows redirects, except from https to http.
func (c *Client) client() *http.Client {
	return &http.Client{Transport: c, CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("more than 10 redirects")
		}
		if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
			return fmt.Errorf("redirected from https to %s", request.URL.Scheme)
		}
		return nil
	}}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func freeDisk(dir string) (int64, error) {
	usage, err := disk.Usage(dir)
	if err != nil {
		return 0, err
	}
	return int64(usage.Free), nil
}
